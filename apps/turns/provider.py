"""What does a turn ask of a model, and how does the answer arrive?

The vocabulary is that of the OpenAI chat-completions protocol: messages, tools, streamed deltas.
The engine knows only this file; the real client and the rehearsal both speak it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model began to write a tool call. `index` is its place among the calls of this step."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """Some more of a call's argument text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What the provider says that this answer took: the only evidence there is."""

    tokens_in: int
    tokens_out: int


Delta = TextDelta | CallStarted | ArgumentsDelta | Usage


class ProviderFailed(Exception):
    """The model could not be asked, or broke off. The words never quote the payload.

    A deterministic failure would come again for the same payload and is not replayed. Of one that
    broke off, or was cut at its length limit, what had arrived is real; nothing else is. One that
    was not served was certainly not worked on, so it took nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        deterministic: bool,
        kind: str = "protocol",
        status: int | None = None,
        retry_after: float = 0.0,
        served: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.deterministic = deterministic
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.served = served

    @property
    def overlong(self) -> bool:
        """Whether the model found the conversation too long."""
        return self.kind == "overlong"

    @property
    def cut(self) -> bool:
        """Whether the answer reached its length limit."""
        return self.kind == "cut"

    @property
    def broke_off(self) -> bool:
        """Whether the answer ended in the middle, through nobody's intent."""
        return self.kind == "broke_off"


class ModelProvider(Protocol):
    """Something that answers a conversation, piece by piece."""

    def stream(
        self,
        *,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        stopped: Callable[[], bool],
    ) -> Iterator[Delta]:
        """Yield the answer's deltas; end early once `stopped()`; raise only `ProviderFailed`."""
        ...

    def hang_up(self) -> None:
        """Leave the model alone, from whichever thread: what reads it ends soon after."""
        ...


def provider() -> ModelProvider:
    """Return the provider that this deployment is set up with."""
    from django.conf import settings

    if settings.KAIZEN_MODEL_URL:
        # The client's import takes a while, and only workers that speak to a model need it.
        from apps.turns.openai_client import OpenAIProvider

        return OpenAIProvider(
            base_url=settings.KAIZEN_MODEL_URL,
            api_key=settings.KAIZEN_MODEL_KEY,
            default_model=settings.KAIZEN_MODEL_NAME,
        )
    if settings.KAIZEN_REHEARSAL:
        from apps.turns.rehearsal import RehearsalModel

        return RehearsalModel()
    raise ProviderFailed(
        "No model is set up. An operator sets KAIZEN_MODEL_URL, KAIZEN_MODEL_NAME and"
        " KAIZEN_MODEL_KEY.",
        deterministic=True,
        served=False,
    )
