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
        except (openai.APIConnectionError, openai.APIError, httpx2.HTTPError) as broken:
            raise ProviderFailed(
                f"The model could not be reached or broke off ({type(broken).__name__}).",
                deterministic=False,
            ) from None


def _deltas(chunks: Any, stopped: Callable[[], bool]) -> Iterator[Delta]:
    started: set[int] = set()
    ended = False
    for chunk in chunks:
        if stopped():
            return
        for choice in chunk.choices[:1]:
            delta = choice.delta
            if delta is not None and delta.content:
                yield TextDelta(delta.content)
            for part in (delta.tool_calls or []) if delta is not None else []:
                if part.index >= MAX_CALLS_PER_STEP:
                    raise ProviderFailed(
                        f"The model asked for more than {MAX_CALLS_PER_STEP} calls at once.",
                        deterministic=False,
                    )
                function = part.function
                if part.index not in started:
                    started.add(part.index)
                    name = (function.name if function else "") or ""
                    yield CallStarted(part.index, part.id or "", name)
                if function is not None and function.arguments:
                    yield ArgumentsDelta(part.index, function.arguments)
            if choice.finish_reason is not None:
                if choice.finish_reason == "length":
                    raise ProviderFailed(
                        "The model's answer was cut off at its length limit.", deterministic=True
                    )
                ended = True
    if not ended:
        raise ProviderFailed("The model's answer broke off.", deterministic=False)


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
