"""What does a declared argument stand for? Literal text, with names in braces that are filled in.

`{name}` is a slot, alone or inside other text; `{{` and `}}` are literal braces. A text is read
once, from left to right, so what is put into a slot is never read again.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from apps.domain.words import shown

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
ARTIFACT_NAME: Final = "artifactName"


class BadTemplate(ValueError):
    """A declared text that cannot be filled in, with the reason."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place that a value is put into."""

    name: str


Parts = tuple[str | Slot, ...]


def parse_template(text: str) -> Parts:
    """Return the literal parts and the slots of a text in order, or raise `BadTemplate`."""
    parts: list[str | Slot] = []
    literal: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        literal.append(text[end : token.start()])
        end = token.end()
        found = token.group()
        if found in ("{{", "}}"):
            literal.append(found[0])
        elif token.group(1):
            if any(literal):
                parts.append("".join(literal))
            literal = []
            parts.append(Slot(token.group(1)))
        else:
            said = "An empty pair of braces" if found == "{}" else f"A lone {found!r}"
            raise BadTemplate(f"{said} means nothing; double it where a brace is meant.")
    literal.append(text[end:])
    if any(literal):
        parts.append("".join(literal))
    return tuple(parts)


def slots(parts: Iterable[str | Slot]) -> list[str]:
    """Return the names of the slots of a text, in order."""
    return [part.name for part in parts if isinstance(part, Slot)]


def fill(parts: Parts, values: Mapping[str, str]) -> str:
    """Return a text with its slots filled, or raise `BadTemplate` for one without a value."""
    filled = []
    for part in parts:
        if isinstance(part, str):
            filled.append(part)
        elif part.name in values:
            filled.append(values[part.name])
        else:
            raise BadTemplate(f"There is no value for {shown(part.name)}.")
    return "".join(filled)


def check_slots(text: str, known: Iterable[str], of_what: str) -> None:
    """Refuse a text that is no template or that has a slot which nothing fills."""
    names = set(known)
    for name in slots(parse_template(text)):
        if name not in names:
            raise BadTemplate(f"{shown(name)} names no {of_what}.")


def described(description: str, artifact: str) -> str:
    """Return a description with the one name filled in that it may hold, or raise `BadTemplate`."""
    check_slots(description, (ARTIFACT_NAME,), "thing that a description can hold")
    return fill(parse_template(description), {ARTIFACT_NAME: artifact})
