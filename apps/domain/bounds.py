"""May a turn go on after the calls that it has made, and if not, what is said?

A refused repeat is a result like any other: the turn keeps what it built and can answer. What ends
a turn here is a real block by policy, a search that finds nothing to call, or the same failure
over and over. One kind of failure leaves a single step, to explain it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from apps.domain.attempts import Attempt

MAX_SEARCHES: Final = 4
MAX_SAME_FAILURES: Final = 5


def end_of(attempts: Sequence[Attempt]) -> str:
    """Say why a turn ends after these calls, in their order; empty where it goes on."""
    if not attempts:
        return ""
    last = attempts[-1].step
    for attempt in attempts:
        if attempt.step == last and attempt.is_blocked:
            return (
                f"{attempt.title} is not allowed here, so the turn ended without going on in"
                " another way."
            )
    return _too_many_searches(attempts) or _same_failure(attempts)


def must_explain(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the failure to which the next step may only answer, if the last step had one."""
    if not attempts:
        return None
    last = attempts[-1].step
    final = [a for a in attempts if a.step == last and a.non_substitutable and not a.ok]
    return final[0] if final else None


def delivered(attempts: Sequence[Attempt]) -> bool:
    """Tell whether the calls made something that stays, so that silence is no failure."""
    return any(attempt.ok and attempt.artifacts for attempt in attempts)


def _too_many_searches(attempts: Sequence[Attempt]) -> str:
    searches = 0
    for attempt in attempts:
        if attempt.searches:
            searches += 1
        elif attempt.ok:
            searches = 0
    if searches < MAX_SEARCHES:
        return ""
    return (
        f"The agent searched for tools {searches} times without successfully calling one, so the"
        " turn ended. Name the tool that it should use, or ask for less."
    )


def _same_failure(attempts: Sequence[Attempt]) -> str:
    failures: Counter[tuple[str, str]] = Counter()
    for attempt in attempts:
        key = (attempt.tool, attempt.arguments_digest)
        if attempt.ok:
            del failures[key]
            continue
        failures[key] += 1
        if failures[key] >= MAX_SAME_FAILURES:
            return (
                f"{attempt.title} failed {failures[key]} times with exactly the same arguments, so"
                " the turn ended."
            )
    return ""
