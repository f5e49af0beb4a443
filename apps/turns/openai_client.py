"""How do we speak to an OpenAI-compatible model?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx2
import openai

from apps.core.correlation import current_correlation_id
from apps.turns.openai_line import Line
from apps.turns.provider import (
    ArgumentsDelta,
    CallStarted,
    Delta,
    ProviderFailed,
    TextDelta,
    Usage,
)

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 600.0
"""A connection that says nothing for this long is given up; the turn's own timer is shorter."""
MAX_CALLS_PER_STEP = 16
MAX_TOKENS = 1_000_000_000
"""More than any model reads or writes at once; a report above it is no evidence."""
# The request never left us.
_NEVER_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?")
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|size|window)|maximum context|too many (?:input )?tokens"
    r"|(?:prompt|input|request) is too long|exceeds? the (?:available|maximum) (?:context|number)",
    re.I,
)


class OpenAIProvider:
    """A client of one chat-completions endpoint. Retries are the engine's, not the library's."""

    def __init__(self, *, base_url: str, api_key: str, default_model: str) -> None:
        self._default_model = default_model
        self._line = Line()
        timeout = openai.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        self._client = openai.OpenAI(
            base_url=base_url,
            # A local model often needs no key, and the library insists on some text.
            api_key=api_key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=self._line.client(timeout),
            default_headers={"Accept-Encoding": "identity"},
        )

    def stream(
        self,
        *,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        stopped: Callable[[], bool],
    ) -> Iterator[Delta]:
        """Yield the deltas of one completion, asked for under the id of whoever asks."""
        request: dict[str, Any] = {
            "model": model or self._default_model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            # Read here and now: the answer may be heard in a thread that knows of no id.
            "extra_headers": {"X-Correlation-ID": current_correlation_id()},
        }
        if tools:
            request["tools"] = tools
        return self._stream(request, stopped)

    def hang_up(self) -> None:
        """Leave the model alone, whatever it is doing."""
        self._line.hang_up()

    def _stream(self, request: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[Delta]:
        try:
            with self._client.chat.completions.create(**cast(Any, request)) as chunks:
                yield from _deltas(chunks, lambda: stopped() or self._line.ended)
        except openai.APIStatusError as answered:
            raise _from_status(answered) from None
        except (openai.OpenAIError, httpx2.HTTPError) as broken:
            if _is_overlong(broken):
                raise _overlong(None) from None
            raise ProviderFailed(
                f"The model could not be reached or broke off ({type(broken).__name__}).",
                deterministic=False,
                kind="broke_off",
                served=not isinstance(broken.__cause__, _NEVER_CONNECTED),
            ) from None
        except (ValueError, RecursionError):
            # The library hands on whatever its JSON reader says of a line that is none.
            raise _off_the_protocol() from None


def _deltas(chunks: Any, stopped: Callable[[], bool]) -> Iterator[Delta]:
    calls = _Calls()
    ended = cut = False
    for chunk in chunks:
        if stopped():
            return
        if usage := _usage(chunk):
            yield usage
        # The library checks nothing that a server sends, so every member may be anything.
        for choice in _listed(chunk, "choices")[:1]:
            delta = getattr(choice, "delta", None)
            content = _text(delta, "content")
            if content:
                yield TextDelta(content)
            for part in _listed(delta, "tool_calls"):
                yield from calls.hear(part)
            finish = getattr(choice, "finish_reason", None)
            # What it took is reported after the end.
            cut = cut or finish == "length"
            ended = ended or finish is not None
    if cut:
        raise ProviderFailed(
            "The model's answer was cut off at its length limit.",
            deterministic=True,
            kind="cut",
        )
    if not ended:
        raise ProviderFailed("The model's answer broke off.", deterministic=False, kind="broke_off")


class _Calls:
    """The calls of one answer: each gets the next place, whatever number the server gave it."""

    def __init__(self) -> None:
        self._begun = 0
        self._open: dict[Any, tuple[int, str]] = {}

    def hear(self, part: Any) -> Iterator[Delta]:
        """Yield what one piece of a call says."""
        function = getattr(part, "function", None)
        name, arguments = _text(function, "name"), _text(function, "arguments")
        call_id, number = _text(part, "id"), getattr(part, "index", None)
        if not isinstance(number, int | None):
            raise _off_the_protocol()
        known = self._open.get(number)
        # Some servers number every call 0: another id with a name is another call.
        if known is None or (name and call_id and call_id != known[1]):
            if self._begun >= MAX_CALLS_PER_STEP:
                raise ProviderFailed(
                    f"The model asked for more than {MAX_CALLS_PER_STEP} calls at once.",
                    deterministic=False,
                )
            known = self._open[number] = self._begun, call_id
            self._begun += 1
            yield CallStarted(known[0], call_id, name)
        if arguments:
            yield ArgumentsDelta(known[0], arguments)


def _usage(chunk: Any) -> Usage | None:
    """Return what a chunk reports, if it does; of several reports the last holds."""
    reported = getattr(chunk, "usage", None)
    read, written = (
        getattr(reported, member, None) for member in ("prompt_tokens", "completion_tokens")
    )
    if type(read) is not int or type(written) is not int:
        return None
    if not (0 <= read <= MAX_TOKENS and 0 <= written <= MAX_TOKENS):
        return None
    return Usage(tokens_in=read, tokens_out=written)


def _listed(holder: Any, member: str) -> list[Any]:
    found = getattr(holder, member, None)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _off_the_protocol()
    return found


def _text(holder: Any, member: str) -> str:
    found = getattr(holder, member, None)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _off_the_protocol()
    return found


def _off_the_protocol() -> ProviderFailed:
    return ProviderFailed(
        "The model's answer does not follow the chat-completions protocol.", deterministic=False
    )


def _from_status(answered: openai.APIStatusError) -> ProviderFailed:
    status = answered.status_code
    if _is_overlong(answered):
        return _overlong(status)
    if status in (401, 403):
        return ProviderFailed(
            f"The model refused our key (HTTP {status}). An operator checks KAIZEN_MODEL_KEY.",
            deterministic=True,
            kind="status",
            status=status,
            served=False,
        )
    transient = status in (408, 409, 425, 429) or status >= 500
    return ProviderFailed(
        f"The model refused the request (HTTP {status}).",
        deterministic=not transient,
        kind="status",
        status=status,
        retry_after=seconds_of(answered.response.headers.get("retry-after", "")),
        # A refusal did no work; what a server error or a timeout did is not known.
        served=status >= 500 or status == 408,
    )


def seconds_of(retry_after: str) -> float:
    """Return how long a Retry-After header asks to wait: seconds, or until a date; 0 if unclear."""
    if _SECONDS.fullmatch(retry_after.strip()):
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
        # A date without a zone is taken for UTC, which HTTP dates are in.
        known = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        return max(0.0, (known - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _overlong(status: int | None) -> ProviderFailed:
    return ProviderFailed(
        "The conversation is too long for the model.",
        deterministic=True,
        kind="overlong",
        status=status,
        served=False,
    )


def _is_overlong(answered: Exception) -> bool:
    """Tell whether a server found the request too long, by its code or by its own words.

    Servers share no code for it. The words are only looked at here and go nowhere.
    """
    status = getattr(answered, "status_code", None)
    if status == 413:
        return True
    if not isinstance(answered, openai.APIError) or status not in (None, 400, 422):
        return False
    code = getattr(answered, "code", None)
    return code == "context_length_exceeded" or bool(_TOO_LONG.search(str(answered)[:2_000]))
