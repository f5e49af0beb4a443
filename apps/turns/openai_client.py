"""How do we speak to an OpenAI-compatible model?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import httpx2
import openai

from apps.turns.provider import ArgumentsDelta, CallStarted, Delta, ProviderFailed, TextDelta

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 120.0
"""The inactivity timer: a stream that says nothing for this long has broken off."""
MAX_CALLS_PER_STEP = 16


class OpenAIProvider:
    """A client of one chat-completions endpoint. Retries are the engine's, not the library's."""

    def __init__(self, *, base_url: str, api_key: str, default_model: str) -> None:
        self._default_model = default_model
        self._client = openai.OpenAI(
            base_url=base_url,
            # A local model often needs no key, and the library insists on some text.
            api_key=api_key or "none",
            max_retries=0,
            timeout=openai.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        )

    def stream(
        self,
        *,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        stopped: Callable[[], bool],
    ) -> Iterator[Delta]:
        """Yield the deltas of one completion."""
        request: dict[str, Any] = {
            "model": model or self._default_model,
            "messages": messages,
            "stream": True,
        }
        if tools:
            request["tools"] = tools
        try:
            with self._client.chat.completions.create(**cast(Any, request)) as chunks:
                yield from _deltas(chunks, stopped)
        except openai.APIStatusError as answered:
            raise _from_status(answered.status_code) from None
        except (openai.OpenAIError, httpx2.HTTPError) as broken:
            raise ProviderFailed(
                f"The model could not be reached or broke off ({type(broken).__name__}).",
                deterministic=False,
            ) from None
        except (ValueError, RecursionError):
            # The library hands on whatever its JSON reader says of a line that is none.
            raise _off_the_protocol() from None


def _deltas(chunks: Any, stopped: Callable[[], bool]) -> Iterator[Delta]:
    calls = _Calls()
    ended = False
    for chunk in chunks:
        if stopped():
            return
        # The library checks nothing that a server sends, so every member may be anything.
        for choice in _listed(chunk, "choices")[:1]:
            delta = getattr(choice, "delta", None)
            content = _text(delta, "content")
            if content:
                yield TextDelta(content)
            for part in _listed(delta, "tool_calls"):
                yield from calls.hear(part)
            finish = getattr(choice, "finish_reason", None)
            if finish == "length":
                raise ProviderFailed(
                    "The model's answer was cut off at its length limit.", deterministic=True
                )
            ended = ended or finish is not None
    if not ended:
        raise ProviderFailed("The model's answer broke off.", deterministic=False)


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


def _from_status(status: int) -> ProviderFailed:
    transient = status in (408, 409, 425, 429) or status >= 500
    if status in (401, 403):
        return ProviderFailed(
            f"The model refused our key (HTTP {status}). An operator checks KAIZEN_MODEL_KEY.",
            deterministic=True,
        )
    return ProviderFailed(
        f"The model refused the request (HTTP {status}).", deterministic=not transient
    )
