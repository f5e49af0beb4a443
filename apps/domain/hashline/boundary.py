"""Was a line at the edge of a range meant to stay? Asked only where the result does not parse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.domain.hashline.blocks import is_closer
from apps.domain.hashline.changes import Change, Insertion, Replacement
from apps.domain.hashline.echoes import Echo
from apps.domain.hashline.model import After, Before
from apps.domain.hashline.refusals import Refusal, Rule
from apps.domain.hashline.scene import Scene
from apps.domain.hashline.text import indent_of, is_blank

MAX_TRIALS = 16
"""Each trial parses the file."""

_OPENERS = ("{", "(", "[", ":")


def repair(
    changes: Sequence[Change], ambiguous: Mapping[int, Echo], scene: Scene
) -> list[Change] | None:
    """Return the changes with the one small variant that parses, None to leave them, or refuse.

    `ambiguous` holds, by index, the bodies whose echo could not be settled.
    """
    if scene.parses(scene.text) is None or scene.parses(scene.after(changes)) is not False:
        _refuse_echo(ambiguous, changes, scene)
        return None
    fits: list[list[Change]] = []
    trials = 0
    for index, change in enumerate(changes):
        if not isinstance(change, Replacement) or not change.written or not change.rows:
            continue
        for variant in _variants(change, ambiguous.get(index), scene):
            if trials == MAX_TRIALS:
                break
            trials += 1
            candidate = [*changes[:index], variant, *changes[index + 1 :]]
            if scene.parses(scene.after(candidate)):
                fits.append(candidate)
    if len(fits) == 1:
        return fits[0]
    if fits and ambiguous:
        raise _refusal(
            Rule.AMBIGUOUS_BOUNDARY_PLACEMENT,
            "The body repeats lines beside its range, and more than one reading of it parses. Name"
            " exactly the lines that change.",
            changes[next(iter(ambiguous))],
            scene,
        )
    _refuse_echo(ambiguous, changes, scene)
    return None


def _variants(change: Replacement, echo: Echo | None, scene: Scene) -> list[Change]:
    variants: list[Change] = []
    first, last = scene.row(change.first), scene.row(change.last)
    solid = [row for row in change.rows if not is_blank(row)]
    if solid and is_closer(last) and _is_deeper(solid[-1], last):
        variants.append(
            Insertion(Before(change.last), change.rows, written=True)
            if change.first == change.last
            else Replacement(change.first, change.last - 1, change.rows, written=True)
        )
    if solid and first.rstrip(" \t").endswith(_OPENERS) and _is_deeper(solid[0], first):
        variants.append(
            Insertion(After(change.first), change.rows, written=True)
            if change.first == change.last
            else Replacement(change.first + 1, change.last, change.rows, written=True)
        )
    if echo is not None:
        if echo.leading:
            variants.append(Echo(echo.leading, 0).drop(change))
        if echo.trailing:
            variants.append(Echo(0, echo.trailing).drop(change))
        if echo.leading and echo.trailing:
            variants.append(echo.drop(change))
    return variants


def _is_deeper(row: str, edge: str) -> bool:
    indent, outer = indent_of(row), indent_of(edge)
    return len(indent) > len(outer) and indent.startswith(outer)


def _refuse_echo(ambiguous: Mapping[int, Echo], changes: Sequence[Change], scene: Scene) -> None:
    for index in ambiguous:
        raise _refusal(
            Rule.AMBIGUOUS_BOUNDARY_ECHO,
            "The body repeats lines beside its range and is too short for the range without them."
            " Name exactly the lines that change, and give all of what replaces them.",
            changes[index],
            scene,
        )


def _refusal(rule: Rule, sentence: str, change: Change, scene: Scene) -> Refusal:
    line = change.first if isinstance(change, Replacement) else None
    return Refusal(rule, sentence, path=scene.path, line=line)
