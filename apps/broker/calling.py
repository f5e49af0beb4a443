"""Carry out a declared request: what it is, whose proof it carries, and how it ended.

An end is exact. What was certainly not sent says so, and may be tried again. What was sent and not
answered is a failure of a read, and an unknown end of a write.
"""

from __future__ import annotations

import codecs
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apps.broker.transport import MAX_ANSWER, Answer, Lost, NotSent, Patience, send
from apps.broker.veil import Veil
from apps.domain.canonical import BadJson, strict_loads
from apps.domain.httptools import HttpTool, Request
from apps.domain.tooling import FaultDomain, Reason, ToolFailure, ToolOk

MAX_QUOTED: Final = 1_500

_KNOWN_REASONS: Final = {
    400: Reason.INVALID_ARGUMENTS,
    401: Reason.PERMISSION_DENIED,
    403: Reason.PERMISSION_DENIED,
    404: Reason.NOT_FOUND,
    409: Reason.CONFLICT,
    410: Reason.NOT_FOUND,
    412: Reason.CONFLICT,
    422: Reason.INVALID_ARGUMENTS,
    429: Reason.LIMIT_EXCEEDED,
}
_LOST_READS: Final = {
    "timeout": Reason.TIMEOUT,
    "cancelled": Reason.CANCELLED,
    "too_large": Reason.LIMIT_EXCEEDED,
    "compressed": Reason.CONTRACT_ERROR,
}
_UNSENT: Final = {"cancelled": Reason.CANCELLED, "timeout": Reason.TIMEOUT}
_NOTHING_SENT: Final = " Nothing was sent."
_LOOK_FIRST: Final = " Whether it changed anything is unknown; look before trying again."


@dataclass(frozen=True, slots=True)
class Performed:
    """How a request ended, and what is written down of it: never a body, never a proof."""

    result: ToolOk | ToolFailure
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The end in one word: the status, or why there is none."""
        return str(self.facts.get("status") or self.facts.get("code") or "")


def perform(
    tool: HttpTool,
    request: Request,
    *,
    proof: str,
    changes_something: bool,
    seconds: float,
    cancelled: Callable[[], bool],
    hidden: Sequence[str] = (),
) -> Performed:
    """Send a request with the value that proves who asks, and tell how it ended.

    What is `hidden` is part of the request itself, and is kept out of what comes back like a proof.
    """
    veil = Veil([proof, *hidden])
    facts: dict[str, Any] = {"method": tool.method, "origin": tool.origin}
    headers: tuple[tuple[str, str], ...] = ()
    if tool.authorization is not None:
        headers = ((tool.authorization.header, tool.authorization.prefix + proof),)
    until = time.monotonic() + min(seconds, tool.timeout_ms / 1000)
    try:
        answer = send(tool, request, proof=headers, patience=Patience(until, cancelled))
    except NotSent as unsent:
        reason = _UNSENT.get(unsent.code, Reason.DEPENDENCY_UNAVAILABLE)
        said = veil.text(str(unsent)) + _NOTHING_SENT
        return Performed(ToolFailure(reason, said, retryable=True), facts | {"code": unsent.code})
    except Lost as lost:
        return Performed(_lost(lost, veil, changes_something), facts | {"code": lost.code})
    facts |= {"status": answer.status, "address": answer.address, "bytes": len(answer.body)}
    return Performed(_judged(tool, answer, veil, changes_something), facts)


def _lost(lost: Lost, veil: Veil, changes_something: bool) -> ToolFailure:
    said = veil.text(str(lost))
    if changes_something:
        return ToolFailure(
            Reason.OUTCOME_UNKNOWN, said + _LOOK_FIRST, domain=FaultDomain.DEPENDENCY
        )
    reason = _LOST_READS.get(lost.code, Reason.DEPENDENCY_UNAVAILABLE)
    return ToolFailure(reason, said, retryable=True, domain=FaultDomain.DEPENDENCY)


def _judged(
    tool: HttpTool, answer: Answer, veil: Veil, changes_something: bool
) -> ToolOk | ToolFailure:
    text = _veiled(answer, veil)
    if answer.status not in tool.success:
        return _refused(tool, answer, text, changes_something)
    if not tool.parse_json:
        return ToolOk(text)
    if not answer.body.strip():
        return ToolOk(None)
    try:
        value = strict_loads(answer.body, max_bytes=MAX_ANSWER)
    except BadJson:
        said = f"{tool.host} answered {answer.status}, and not with readable JSON."
        if changes_something:
            said += " What it was asked to do may have been done all the same."
        return ToolFailure(Reason.CONTRACT_ERROR, said, details=_quoted(answer, text))
    return ToolOk(veil.value(value))


def _refused(tool: HttpTool, answer: Answer, text: str, changes_something: bool) -> ToolFailure:
    said = f"{tool.host} answered {answer.status}."
    if 300 <= answer.status < 400:
        said += " Redirects are not followed."
    reason = _KNOWN_REASONS.get(answer.status, Reason.REPORTED_FAILURE)
    broken = answer.status >= 500
    if broken:
        reason = Reason.DEPENDENCY_UNAVAILABLE
        said += _LOOK_FIRST if changes_something else ""
    return ToolFailure(
        reason,
        said,
        retryable=not changes_something and (broken or answer.status == 429),
        domain=FaultDomain.DEPENDENCY if broken or answer.status in (401, 403, 429) else None,
        details=_quoted(answer, text),
    )


def _quoted(answer: Answer, text: str) -> dict[str, Any]:
    return {"status": answer.status, "answer": text[:MAX_QUOTED]}


def _veiled(answer: Answer, veil: Veil) -> str:
    """Return a body as text without the proof, however JSON may have written its signs."""
    text = veil.text(_text(answer))
    try:
        value = strict_loads(answer.body, max_bytes=MAX_ANSWER)
    except BadJson:
        return text
    hidden = veil.value(value)
    return text if hidden == value else json.dumps(hidden, ensure_ascii=False)


def _text(answer: Answer) -> str:
    """Return a body as text, in the encoding that it names where we know it."""
    _, _, named = answer.content_type.lower().partition("charset=")
    name = named.partition(";")[0].strip(" \"'")
    try:
        codec = codecs.lookup(name).name if name else "utf-8"
    except LookupError:
        codec = "utf-8"
    if codec not in ("utf-8", "ascii", "iso8859-1", "cp1252", "utf-16", "iso8859-15"):
        codec = "utf-8"
    text = answer.body.decode(codec, "replace").removeprefix("\ufeff")
    # Nothing keeps a NUL; one between all letters, as in UTF-16 that nobody named, hides them.
    return text.replace("\0", "")
