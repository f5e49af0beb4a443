"""What did a turn try, and how did each of its calls end?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apps.domain.tooling.words import Effect, Outcome, Reason

SUCCEEDED: Final = frozenset({Outcome.OK, Outcome.SUPPRESSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One settled call, as far as the rules of a turn look at it."""

    step: int
    place: int
    tool: str
    title: str
    effect: str
    outcome: Outcome
    reason: str = ""
    arguments_digest: str = ""
    searches: bool = False
    non_substitutable: bool = False
    artifacts: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether what was asked for is there."""
        return self.outcome in SUCCEEDED

    @property
    def writes(self) -> bool:
        """Whether it was to change something; an unknown tool never could."""
        return self.effect in (Effect.WRITE.value, Effect.SENSITIVE.value)

    @property
    def is_blocked(self) -> bool:
        """Whether policy or authorization stood against it, rather than how it was asked."""
        return self.outcome is Outcome.REFUSED and self.reason in _BLOCKS


_BLOCKS: Final = frozenset({Reason.PERMISSION_DENIED.value, Reason.NOT_ADMITTED_HERE.value})
