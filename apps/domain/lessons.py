"""What have the calls of this turn taught about the next one?

A tool that could not do its job for several different requests is cut off for the rest of the turn.
Arguments that just failed for certain are not tried again unchanged. And a write that keeps being
asked for after it was made is answered ever more plainly. All of it is a small JSON value of the
run, so a decision needs no look at earlier calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from apps.domain.tooling.words import FaultDomain, Outcome, Reason

CUT_OFF_AFTER: Final = 3
"""Different requests that a tool fails in a row before it is cut off for the turn."""
CLOSING_AFTER: Final = 2
"""Identical writes that are handed back before the wording closes."""
MOST_KEPT: Final = 64
"""Failures and repeats that are remembered of one turn; the oldest are forgotten first."""

_FAILED: Final = frozenset({Outcome.ERROR, Outcome.RAISED, Outcome.TIMEOUT})
# What says no to the same input says no again, until something else has happened.
_CERTAIN: Final = frozenset(
    {
        Reason.INVALID_ARGUMENTS,
        Reason.NOT_FOUND,
        Reason.PERMISSION_DENIED,
        Reason.COMMAND_FAILED,
        Reason.STALE_VERSION,
        Reason.STALE_FILE,
        Reason.CONFLICT,
        Reason.CONTRACT_ERROR,
        Reason.LIMIT_EXCEEDED,
        Reason.REPORTED_FAILURE,
    }
)


class Standing(NamedTuple):
    """A failure that nothing has changed since: in which step, and why."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """What is learned from: one call that ran, or was answered without running."""

    tool: str
    digest: str
    step: int
    outcome: Outcome
    reason: str = ""
    fault: FaultDomain | None = None
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Lessons:
    """What the calls of one turn have taught so far."""

    failing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    standing: Mapping[str, Standing] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> Lessons:
        """Read what `as_json` wrote; nothing was learned from an empty value."""
        if not value:
            return cls()
        return cls(
            failing={tool: tuple(digests) for tool, digests in value["failing"].items()},
            standing={key: Standing(*kept) for key, kept in value["standing"].items()},
            repeats=dict(value["repeats"]),
        )

    def as_json(self) -> dict[str, Any]:
        """Return a JSON value to be kept with the run."""
        return {
            "failing": {tool: list(digests) for tool, digests in self.failing.items()},
            "standing": {key: list(kept) for key, kept in self.standing.items()},
            "repeats": dict(self.repeats),
        }

    def cuts_off(self, tool: str) -> bool:
        """Tell whether a tool has failed too many different requests to be asked again."""
        return len(self.failing.get(tool, ())) >= CUT_OFF_AFTER

    def same_failure(self, tool: str, digest: str, *, step: int) -> str | None:
        """Return why exactly this call just failed, if it did in an earlier step."""
        kept = self.standing.get(_key(tool, digest))
        return None if kept is None or kept.step >= step else kept.reason

    def repeats_of(self, tool: str, digest: str) -> int:
        """Return how often this write was already handed back instead of made again."""
        return self.repeats.get(_key(tool, digest), 0)

    def after(self, ended: Ended) -> Lessons:
        """Return what is known once a call has ended."""
        if ended.outcome is Outcome.OK:
            # Whatever succeeded may have changed what the others failed on.
            return replace(self, failing=_without(self.failing, ended.tool), standing={})
        key = _key(ended.tool, ended.digest)
        if ended.outcome is Outcome.SUPPRESSED:
            return replace(self, repeats=_kept({**self.repeats, key: self.repeats.get(key, 0) + 1}))
        if ended.outcome not in _FAILED:
            return self
        learned = self
        if ended.fault is not None and ended.fault.counts_against_tool:
            learned = replace(learned, failing=_counted(self.failing, ended.tool, ended.digest))
        if not ended.retryable and ended.reason in _CERTAIN:
            standing = {**self.standing, key: Standing(ended.step, ended.reason)}
            learned = replace(learned, standing=_kept(standing))
        return learned


def _key(tool: str, digest: str) -> str:
    return f"{tool} {digest}"


def _without(failing: Mapping[str, tuple[str, ...]], tool: str) -> dict[str, tuple[str, ...]]:
    return {name: digests for name, digests in failing.items() if name != tool}


def _counted(
    failing: Mapping[str, tuple[str, ...]], tool: str, digest: str
) -> dict[str, tuple[str, ...]]:
    seen = failing.get(tool, ())
    # The same request that fails twice says no more of the tool than once.
    digests = seen if digest in seen else (*seen, digest)[:CUT_OFF_AFTER]
    return _kept({**_without(failing, tool), tool: digests})


def _kept(entries: dict[str, Any]) -> dict[str, Any]:
    return dict(list(entries.items())[-MOST_KEPT:])
