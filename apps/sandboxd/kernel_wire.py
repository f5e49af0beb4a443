"""Say how whoever asks and the supervisor speak about sandboxes that live on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from apps.domain.paths import BadPath, check_tree
from apps.domain.wire import BadFrame, BadJson, JsonValue, Message, read_json
from apps.sandboxd.exchange import Exchange, Terms
from apps.sandboxd.frames import MAX_LINE
from apps.sandboxd.job_wire import (
    MessageFields,
    decode_job,
    decode_result,
    encode_job,
    encode_result,
)
from apps.sandboxd.jobs import (
    MAX_DEADLINE_MS,
    BadJob,
    Reason,
    SandboxResult,
    SandboxSpec,
    check_outputs,
)
from apps.sandboxd.workfiles import MAX_WORK_FILES, Known

MAX_LIFE_MS: Final = 24 * 3600 * 1000
MAX_FAREWELL_MS: Final = 60_000
MAX_MANIFEST: Final = 4 * 1024 * 1024

_KEY = re.compile(r"[A-Za-z0-9._:-]{8,128}\Z")
_TERMS: Final = ("idle_ms", "total_ms", "farewell_ms")


@dataclass(frozen=True, slots=True)
class Opening:
    """A wish for a sandbox that lives on, under a key, for one owner."""

    key: str
    owner: str
    spec: SandboxSpec
    terms: Terms


@dataclass(frozen=True, slots=True)
class Opened:
    """A sandbox that lives: which one, where, and whether it is new."""

    generation: str
    fresh: bool
    node: str
    python: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a living sandbox; `generation` names exactly the one that is meant."""

    key: str
    owner: str
    generation: str
    line: bytes
    deadline_ms: int
    workspace: Mapping[str, Known] | None = None
    outputs: tuple[str, ...] = ()
    collect: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a request; all bytes in it are untrusted. `said` is the program's own word.

    `unheard` says that no answer came, so that nobody knows what became of it.
    """

    result: SandboxResult
    kernel_ended: bool = False
    calls: int = 0
    unheard: bool = False

    @property
    def said(self) -> bytes:
        """Return what the program itself said of the request."""
        return self.result.result


@dataclass(frozen=True, slots=True)
class Closed:
    """A sandbox that is dead, and what it answered to the farewell."""

    was_there: bool
    reason: Reason = Reason.CANCELLED
    detail: str = ""
    said: bytes = b""


def check_key(text: str) -> str:
    """Return a key or an owner unchanged, or refuse it with BadJob."""
    if not _KEY.match(text):
        raise BadJob("A key has 8 to 128 letters, digits, or . _ : - signs.")
    return text


def encode_opening(opening: Opening) -> Message:
    """Write a wish for a sandbox that lives on."""
    job = encode_job(replace(opening.spec, stdin=b""), deadline_ms=MAX_DEADLINE_MS)
    terms = opening.terms
    return Message(
        "open",
        {
            **job.fields,
            "key": check_key(opening.key),
            "owner": check_key(opening.owner),
            "idle_ms": terms.idle_ms,
            "total_ms": terms.total_ms,
            "farewell_ms": terms.farewell_ms,
            "farewell": terms.farewell.decode(),
            "interrupt": terms.interrupt.decode(),
        },
        job.body,
    )


def decode_opening(message: Message) -> Opening:
    """Read a wish for a sandbox that lives on, or refuse it with BadFrame or BadJob."""
    fields = dict(message.fields)
    names = ("key", "owner", *_TERMS, "farewell", "interrupt")
    own = MessageFields(Message("", {name: fields.pop(name, None) for name in names}))
    spec, _ = decode_job(Message("job", fields, message.body))
    if spec.waits:
        raise BadJob("What lives on waits for its requests, and for nothing before it begins.")
    idle, total, farewell_ms = (own.whole(name) for name in _TERMS)
    if not 0 < idle <= MAX_LIFE_MS or not 0 < total <= MAX_LIFE_MS or farewell_ms > MAX_FAREWELL_MS:
        raise BadJob("A sandbox may live for a day, and take a minute to say farewell.")
    terms = Terms(
        idle, total, _line(own.text("farewell")), farewell_ms, _line(own.text("interrupt"))
    )
    return Opening(check_key(own.text("key")), check_key(own.text("owner")), spec, terms)


def _line(text: str) -> bytes:
    line = text.encode()
    if line and (line.find(b"\n") != len(line) - 1 or len(line) > MAX_LINE):
        raise BadJob("A farewell or an interruption is one line.")
    return line


def encode_opened(opened: Opened) -> Message:
    """Write that a sandbox lives."""
    return Message(
        "opened",
        {
            "generation": opened.generation,
            "fresh": opened.fresh,
            "node": opened.node,
            "python": opened.python,
        },
    )


def decode_opened(message: Message) -> Opened:
    """Read that a sandbox lives, or refuse it with BadFrame."""
    read = MessageFields(message)
    opened = Opened(
        read.text("generation"), read.yes("fresh"), read.text("node"), read.text("python")
    )
    read.done()
    return opened


def encode_request(request: Request) -> Message:
    """Write one request."""
    manifest = b""
    if request.workspace is not None:
        rows = [
            [name, one.size, one.digest.hex(), one.executable]
            for name, one in request.workspace.items()
        ]
        manifest = json.dumps(rows).encode()
    return Message(
        "request",
        {
            "key": request.key,
            "owner": request.owner,
            "generation": request.generation,
            "deadline_ms": request.deadline_ms,
            "outputs": list(request.outputs),
            "collect": request.collect,
            "line": len(request.line),
            "manifest": len(manifest),
        },
        request.line + manifest,
    )


def decode_request(message: Message) -> Request:
    """Read one request, or refuse it with BadFrame or BadJob."""
    read = MessageFields(message)
    deadline_ms = read.whole("deadline_ms")
    if not 0 < deadline_ms <= MAX_DEADLINE_MS:
        raise BadJob("The deadline is not within one day.")
    line, manifest = read.take(read.whole("line")), read.take(read.whole("manifest"))
    if not line.endswith(b"\n") or line.count(b"\n") != 1 or len(line) > 4 * MAX_LINE:
        raise BadJob("A request is one line of a bounded size.")
    request = Request(
        key=check_key(read.text("key")),
        owner=check_key(read.text("owner")),
        generation=read.text("generation"),
        line=line,
        deadline_ms=deadline_ms,
        workspace=_manifest(manifest) if manifest else None,
        outputs=check_outputs(read.texts("outputs")),
        collect=read.yes("collect"),
    )
    read.done()
    return request


def _manifest(data: bytes) -> dict[str, Known]:
    try:
        rows = read_json(data, max_bytes=MAX_MANIFEST)
    except BadJson as problem:
        raise BadFrame(f"The list of files is not acceptable: {problem}") from problem
    if not isinstance(rows, list):
        raise BadFrame("The list of files is not a list.")
    found: dict[str, Known] = {}
    for row in rows:
        match row:
            case [str(name), int(size), str(digest), bool(executable)] if len(digest) == 64:
                try:
                    found[name] = Known(size, bytes.fromhex(digest), executable)
                except ValueError:
                    raise BadFrame("A digest is not hexadecimal.") from None
            case _:
                raise BadFrame("A row of the list of files has an unknown shape.")
    try:
        check_tree(found, max_files=MAX_WORK_FILES)
    except BadPath as problem:
        raise BadJob(str(problem)) from problem
    return found


def encode_answered(exchange: Exchange) -> Message:
    """Write what came of a request."""
    result = encode_result(exchange.result)
    own: dict[str, JsonValue] = {"kernel_ended": exchange.kernel_ended, "calls": exchange.calls}
    return Message("answered", {**result.fields, **own}, result.body)


def decode_answered(message: Message) -> Answered:
    """Read what came of a request, or refuse it with BadFrame."""
    fields = dict(message.fields)
    names = ("kernel_ended", "calls")
    own = MessageFields(Message("", {name: fields.pop(name, None) for name in names}))
    result = decode_result(Message("result", fields, message.body))
    return Answered(result, own.yes("kernel_ended"), own.whole("calls"))


def encode_closed(closed: Closed) -> Message:
    """Write that a sandbox is dead."""
    return Message(
        "closed",
        {
            "was_there": closed.was_there,
            "reason": closed.reason.value,
            "detail": closed.detail[:1000],
        },
        closed.said,
    )


def decode_closed(message: Message) -> Closed:
    """Read that a sandbox is dead, or refuse it with BadFrame."""
    read = MessageFields(Message("closed", message.fields))
    closed = Closed(
        read.yes("was_there"), _reason(read.text("reason")), read.text("detail"), message.body
    )
    read.done()
    return closed


def _reason(word: str) -> Reason:
    if word not in set(Reason):
        raise BadFrame("The reason is not one of the closed list.")
    return Reason(word)
