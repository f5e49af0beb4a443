"""Does a body repeat the lines beside its range? Authors copy a line too many at either end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.domain.hashline.changes import Replacement
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.scene import Scene
from apps.domain.hashline.text import is_blank

MAX_ECHO = 64
"""Nobody copies more lines than this by a slip, and looking further would cost."""

_ANNOTATIONS = frozenset(
    {
        "decorator",
        "attribute_item",
        "inner_attribute_item",
        "attribute_list",
        "attribute",
        "annotation",
        "marker_annotation",
    }
)


@dataclass(frozen=True, slots=True)
class Echo:
    """How many rows at either end of a body repeat the lines beside the range."""

    leading: int
    trailing: int

    def drop(self, change: Replacement) -> Replacement:
        """Return the change without the repeated rows."""
        return replace(change, rows=change.rows[self.leading : len(change.rows) - self.trailing])


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of a change whose body echoes: dropped, kept, or nobody can tell."""

    change: Replacement
    dropped: bool = False
    ambiguous: Echo | None = None


def settle_echo(change: Replacement, scene: Scene, named: LineSet) -> Settled:
    """Drop what a body plainly repeats; say so where it might."""
    echo = Echo(_leading(change, scene, named), _trailing(change, scene, named))
    length = change.last - change.first + 1
    rest = len(change.rows) - echo.leading - echo.trailing
    if echo.leading and echo.trailing:
        if rest == length:
            return Settled(echo.drop(change), dropped=True)
        return Settled(change, ambiguous=echo if length > 1 else None)
    if not echo.leading and not echo.trailing:
        return Settled(change)
    if length == 1 and not _is_annotated(change, echo, scene):
        return Settled(change)
    if rest >= length:
        return Settled(echo.drop(change), dropped=True)
    return Settled(change, ambiguous=echo)


def _leading(change: Replacement, scene: Scene, named: LineSet) -> int:
    """Return the longest beginning of the body that equals the lines just above the range."""
    most = min(MAX_ECHO, len(change.rows), change.first - 1)
    free = 0
    while free < most and change.first - 1 - free not in named:
        free += 1
    for length in range(free, 0, -1):
        above = scene.rows[change.first - 1 - length : change.first - 1]
        if _repeats(change.rows[:length], above):
            return length
    return 0


def _trailing(change: Replacement, scene: Scene, named: LineSet) -> int:
    """Return the longest end of the body that equals the lines just below the range."""
    most = min(MAX_ECHO, len(change.rows), scene.lines - change.last)
    free = 0
    while free < most and change.last + 1 + free not in named:
        free += 1
    for length in range(free, 0, -1):
        below = scene.rows[change.last : change.last + length]
        if _repeats(change.rows[-length:], below):
            return length
    return 0


def _repeats(rows: Sequence[str], lines: Sequence[str]) -> bool:
    return all(map(str.__eq__, rows, lines)) and not all(is_blank(line) for line in lines)


def _is_annotated(change: Replacement, echo: Echo, scene: Scene) -> bool:
    if echo.leading:
        lines = range(change.first - echo.leading, change.first)
    else:
        lines = range(change.last + 1, change.last + 1 + echo.trailing)
    solid = [line for line in lines if not is_blank(scene.row(line))]
    return all(
        any(node.kind in _ANNOTATIONS and node.start_row == line - 1 for node in scene.chain(line))
        for line in solid
    )
