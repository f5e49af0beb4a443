"""What is remembered outside the workspace: texts that were shown, registers, a repeated call.

Everything here is a value: remembering returns another memory and leaves the old one as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.text import tag_of

MAX_VERSIONS = 4
"""So many texts of one path are kept, the newest first."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole text of a file and the lines of it that its reader was shown in full."""

    text: str
    tag: str
    seen: LineSet = field(default_factory=LineSet)

    @classmethod
    def of(cls, text: str, seen: LineSet) -> Snapshot:
        """Take a snapshot of a normalised text."""
        return cls(text, tag_of(text), seen)


History = tuple[Snapshot, ...]


@dataclass(frozen=True, slots=True)
class Idle:
    """The last call that changed nothing, and how often in a row it came."""

    digest: str
    times: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Retained texts by path, named registers, and the last call without effect."""

    histories: Mapping[str, History] = field(default_factory=dict)
    registers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    idle: Idle | None = None

    def remember(self, path: str, text: str, seen: LineSet) -> Memory:
        """Record that these lines of a text were shown; the text becomes the newest of its path."""
        history = self.histories.get(path, ())
        known = next((snapshot for snapshot in history if snapshot.text == text), None)
        newest = (
            Snapshot.of(text, seen) if known is None else replace(known, seen=known.seen | seen)
        )
        rest = tuple(snapshot for snapshot in history if snapshot is not known)
        return self._with(path, (newest, *rest)[:MAX_VERSIONS])

    def saw(self, path: str, snapshot: Snapshot, lines: LineSet) -> Memory:
        """Add lines that were shown of a retained text, which stays where it is in its history."""
        return self._with(
            path,
            tuple(
                replace(kept, seen=kept.seen | lines) if kept is snapshot else kept
                for kept in self.histories.get(path, ())
            ),
        )

    def forget(self, path: str) -> Memory:
        """Drop every text of a path."""
        return self._with(path, ())

    def carry(self, path: str, destination: str) -> Memory:
        """Let the texts of a path be those of its new place, so that old tags work there."""
        return self._with(destination, self.histories.get(path, ())).forget(path)

    def find(self, path: str, tag: str) -> Snapshot | None:
        """Return the newest retained text of a path that has this tag."""
        return next((kept for kept in self.histories.get(path, ()) if kept.tag == tag), None)

    def is_newest(self, path: str, snapshot: Snapshot) -> bool:
        """Tell whether a snapshot is the last that was recorded for its path."""
        history = self.histories.get(path, ())
        return bool(history) and history[0] is snapshot

    def paths_like(self, path: str, tag: str) -> list[str]:
        """Return other paths with the same file name that retain a text with this tag."""
        name = path.rpartition("/")[2]
        return [
            other
            for other, history in self.histories.items()
            if other != path
            and other.rpartition("/")[2] == name
            and any(snapshot.tag == tag for snapshot in history)
        ]

    def _with(self, path: str, history: History) -> Memory:
        histories = {**self.histories, path: history}
        if not history:
            del histories[path]
        return replace(self, histories=histories)
