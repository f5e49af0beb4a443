"""Does an answer say that something was done which was not? Then the record speaks instead.

A turn's last word is held against the outcomes of its own calls. Where a write failed, was refused,
has an unknown end or was never tried, a sentence that claims its success is replaced by what the
record says. The reader looks for plain claims and lets everything doubtful stand: a correction
that is itself wrong would cost more than a boast that the record beside it contradicts anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apps.domain.attempts import Attempt
from apps.domain.claims import Claim, admits_failure, claims_in, reads_english, words_of
from apps.domain.tooling.words import Outcome, Reason

MAX_NAMED: Final = 12

_HOW: Final = {
    Outcome.DENIED: "was not approved",
    Outcome.REFUSED: "was refused",
    Outcome.STOPPED: "was stopped",
    Outcome.TIMEOUT: "ran out of time",
    Outcome.AMBIGUOUS: "has an unknown end: it may or may not have happened",
    Outcome.ABANDONED: "was broken off",
}


@dataclass(frozen=True, slots=True)
class Grounded:
    """An answer as it may be said, and the server's own note in it, if it needed one."""

    text: str
    note: str = ""
    overwritten: bool = False


def ground(text: str, attempts: Sequence[Attempt], *, wrote_before: bool = False) -> Grounded:
    """Hold an answer against the record of its turn.

    `wrote_before` says that earlier turns of this conversation changed something, which an answer
    may rightly speak of when this one tried no write at all.
    """
    writes = [attempt for attempt in attempts if attempt.writes]
    failed = _unresolved(writes)
    false = [claim for claim in claims_in(text) if _is_false(claim, writes, failed, wrote_before)]
    files = _unnamed_files(text, writes)
    if false:
        note = _note(writes, failed, files)
        return Grounded(_overwrite(text, false, note), note, overwritten=True)
    if failed and not admits_failure(text) and _leaves_doubt(text, writes):
        note = _note(writes, failed, files)
        return Grounded(f"{text.rstrip()}\n\n{note}", note)
    if files:
        note = _list("Saved all the same", files)
        return Grounded(f"{text.rstrip()}\n\n{note}", note)
    return Grounded(text)


def _unresolved(writes: Sequence[Attempt]) -> list[Attempt]:
    """Return the failed writes that no later success of the same tool made good."""
    failed: list[Attempt] = []
    for attempt in writes:
        if attempt.ok:
            repaired = [a for a in failed if a.tool == attempt.tool and _repairable(a)]
            failed = [a for a in failed if a not in repaired]
        else:
            failed.append(attempt)
    return failed


def _repairable(attempt: Attempt) -> bool:
    """Tell whether a later success of the same tool means the same thing, better asked for."""
    return attempt.outcome in (Outcome.ERROR, Outcome.RAISED) or attempt.reason in (
        Reason.INVALID_ARGUMENTS.value,
        Reason.REPEATED_FAILURE.value,
    )


def _is_false(
    claim: Claim, writes: Sequence[Attempt], failed: Sequence[Attempt], wrote_before: bool
) -> bool:
    done = [attempt for attempt in writes if attempt.ok]
    if not writes:
        return claim.names_a_thing and not (wrote_before and not claim.is_fresh)
    if not failed:
        return False
    if not done:
        return True
    # Something was done and something was not: only a claim that can mean no other is false.
    return any(_means(claim, a) for a in failed) and not any(_means(claim, a) for a in done)


def _means(claim: Claim, attempt: Attempt) -> bool:
    kinds, things = words_of(f"{attempt.tool} {attempt.title}")
    if claim.kinds and kinds and not claim.kinds & kinds:
        return False
    return bool(claim.kinds & kinds or claim.things & things)


def _leaves_doubt(text: str, writes: Sequence[Attempt]) -> bool:
    """Tell whether an answer over failed writes may be read as one of success.

    In a language that the reader of claims does not know, nothing tells what was claimed, so the
    record stands below it. Where the words are known, it takes a claim.
    """
    if not reads_english(text):
        return True
    return bool(claims_in(text)) and any(attempt.ok for attempt in writes)


def _overwrite(text: str, claims: Iterable[Claim], note: str) -> str:
    """Cut the claims out and let the record stand in the place of the first."""
    spans = sorted({(claim.start, claim.end) for claim in claims})
    kept, at = [], 0
    for start, end in spans:
        kept.append(text[at:start])
        at = end
    kept.append(text[at:])
    rest = "\n\n".join(part.strip() for part in "".join(kept).split("\n\n") if part.strip())
    return f"{note}\n\n{rest}" if rest else note


def _note(writes: Sequence[Attempt], failed: Sequence[Attempt], files: Sequence[str]) -> str:
    if not writes:
        return "**Kaizen's record says otherwise:** nothing was made, changed or sent in this turn."
    lines = ["**Kaizen's record of this turn:**", ""]
    lines += [f"- Done: {_name(attempt)}" for attempt in writes if attempt.ok][:MAX_NAMED]
    lines += [f"- Not done: {_name(attempt)}, which {_how(attempt)}" for attempt in failed][
        :MAX_NAMED
    ]
    if files:
        lines.append(f"- {_list('Saved all the same', files)}")
    return "\n".join(lines)


def _name(attempt: Attempt) -> str:
    made = f" ({', '.join(attempt.artifacts[:3])})" if attempt.artifacts else ""
    return f"{attempt.title}{made}"


def _how(attempt: Attempt) -> str:
    if attempt.saved:
        return "ended with an error; its change may be incomplete"
    return _HOW.get(attempt.outcome, "failed")


def _unnamed_files(text: str, writes: Sequence[Attempt]) -> list[str]:
    files = [file for attempt in writes if not attempt.ok for file in attempt.saved]
    return [file for file in dict.fromkeys(files) if file not in text]


def _list(title: str, files: Sequence[str]) -> str:
    more = f" and {len(files) - MAX_NAMED} more" if len(files) > MAX_NAMED else ""
    named = ", ".join(f"`{file}`" for file in files[:MAX_NAMED])
    return f"{title}, by a call that failed, so it may be incomplete: {named}{more}"
