"""Which files does a patch speak of? What must be at hand before it can be worked out."""

from __future__ import annotations

from dataclasses import dataclass

from apps.domain.hashline.model import Move
from apps.domain.hashline.parser import parse
from apps.domain.hashline.refusals import Refusal, Rule
from apps.domain.hashline.sections import split
from apps.domain.paths import BadPath, check_name


@dataclass(frozen=True, slots=True)
class Target:
    """A file that a section names, and where it would go."""

    path: str
    tag: str | None
    destination: str | None

    @property
    def name(self) -> str:
        """The last part of the path: a file read under another folder may be meant."""
        return self.path.rpartition("/")[2]


def targets_of(patch: str) -> list[Target]:
    """Return what a patch names, in order, or refuse a patch that cannot be read."""
    found: list[Target] = []
    for section in split(patch):
        path = settle_path(section.path)
        try:
            file_op = parse(section).file_op
            destination = settle_path(file_op.destination) if isinstance(file_op, Move) else None
        except Refusal:
            # Sections are worked out in order: an earlier one may have to be refused first.
            destination = None
        found.append(Target(path, section.tag, destination))
    return found


def settle_path(path: str) -> str:
    """Return a path in its one form, relative to the workspace, or refuse it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    name = "/".join(parts)
    if path.startswith("/"):
        name = "/" + name
    try:
        check_name(name)
    except BadPath as why:
        raise Refusal(Rule.BAD_PATH, str(why)) from None
    return name
