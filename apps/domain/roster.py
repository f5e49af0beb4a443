"""Which artifacts does a conversation have, and which of them wants to be finished?

What the model is told and what it is shown first come from this one place: a roster that tells it
to finish a version with a tool earns that tool its place among the first, and where the run does
not hold the tool, the roster does not speak of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from apps.domain.words import shown

FINISHES: Final = "update_artifact"
MAX_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class RosterItem:
    """An artifact of the conversation."""

    id: str
    title: str
    kind: str
    version: int
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """What a model is told of the artifacts, and which tools that puts first."""

    text: str = ""
    preferred: tuple[str, ...] = ()


def roster(items: Sequence[RosterItem], *, held: Collection[str]) -> Roster:
    """Return the roster of a conversation for a run that holds these tools."""
    if not items:
        return Roster()
    lines = ["Artifacts of this conversation, newest first:"]
    unfinished = False
    for item in items[:MAX_LISTED]:
        line = f"- {item.id} version {item.version}, {item.kind}: {shown(item.title)}"
        if item.unfinished and FINISHES in held:
            unfinished = True
            line += f" — unfinished: complete it with {FINISHES}, do not start another"
        lines.append(line)
    if len(items) > MAX_LISTED:
        lines.append(f"- and {len(items) - MAX_LISTED} more")
    return Roster("\n".join(lines), (FINISHES,) if unfinished else ())
