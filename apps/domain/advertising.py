"""Which tools does a model see in a step, in which order, and with how much said of each?

All of this is about seeing. What a run holds was frozen when it began, and what it may do is
decided call by call; nothing here widens or narrows either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from apps.domain.staging import protocol_of, whole

MAX_BRIEF: Final = 200


class Profile(StrEnum):
    """How much a model is told of each tool."""

    FULL = "full"
    BRIEF = "brief"


@dataclass(frozen=True, slots=True)
class Held:
    """A tool that a run holds; a deferred one is shown only where something asks for it."""

    name: str
    deferred: bool = False


def advertise(held: Sequence[Held], *, preferred: Sequence[str] = (), bound: str = "") -> list[str]:
    """Return the names that a step shows: the bound tool alone, else the preferred ones first."""
    names = [tool.name for tool in held]
    if bound in names:
        return [bound]
    first = whole(preferred, names)
    direct = [tool.name for tool in held if not tool.deferred]
    # Half a protocol is never shown, also where only some of its tools are deferred.
    direct = [name for name in direct if set(protocol_of(name) or ()) <= {*direct, *first}]
    return first + [name for name in direct if name not in first]


def describe(entry: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """Return a frozen descriptor as a model sees it, in the chat-completions shape."""
    description = entry["description"]
    if profile is Profile.BRIEF:
        description = _first_sentence(description)
    return {
        "type": "function",
        "function": {
            "name": entry["name"],
            "description": description,
            "parameters": entry["input_schema"],
        },
    }


def _first_sentence(text: str) -> str:
    sentence = text.split(". ", 1)[0].strip()
    if len(sentence) > MAX_BRIEF:
        return f"{sentence[: MAX_BRIEF - 1]}…"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
