"""How do we tell an author everything that is wrong at once, within bounds?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apps.domain.words import shown

MAX_PROBLEMS: Final = 20
MAX_PLACE: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, by which rule, and in one sentence."""

    path: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def as_dict(self) -> dict[str, str]:
        """Return the problem as a JSON object."""
        return {"path": self.path, "rule": self.rule, "message": self.message}


class Rejected(ValueError):
    """Something that an author handed in and that is refused, with the problems found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)[:MAX_PROBLEMS]
        super().__init__(" ".join(str(problem) for problem in self.problems[:3]))


class Problems:
    """A list of problems that stops growing at its bound."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, path: str, rule: str, message: str) -> None:
        """Note one problem, unless enough are noted already."""
        if not self.full:
            self._found.append(Problem(place(path), rule, message))

    @property
    def full(self) -> bool:
        """Whether no further problem would be noted."""
        return len(self._found) >= MAX_PROBLEMS

    @property
    def count(self) -> int:
        """How many were noted."""
        return len(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def found(self) -> list[Problem]:
        """Return what was noted."""
        return list(self._found)


def place(path: str) -> str:
    """Return a path in ASCII and within bounds, without quotes around it."""
    return shown(path, limit=MAX_PLACE)[1:-1]


def dotted(root: str, pointer_text: str) -> str:
    """Return a JSON pointer below a field as `field.name[0].name`."""
    place_so_far = root
    for part in pointer_text.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if name.isdecimal():
            place_so_far += f"[{name}]"
        else:
            place_so_far += f".{name}" if place_so_far else name
    return place_so_far
