"""Random edits for Hashline, and an oracle that knows nothing of how the engine works.

The oracle never numbers anything anew and never compares texts to find a place. It keeps, for each
line of the file as it was read, what comes before it, instead of it and after it; and for a file
that others have changed since, it is told which line is which, because the changes were made here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

Row = tuple[int | None, str]
"""A line: which line of the read text it is, none for a new one, and what it says."""


@dataclass(frozen=True, slots=True)
class Op:
    """One hunk, as data: what, where, and with which rows or register."""

    verb: str
    first: int = 0
    last: int = 0
    body: tuple[str, ...] = ()
    register: str | None = None

    @property
    def named(self) -> range:
        """The lines that the hunk names."""
        return range(self.first, self.last + 1) if self.first else range(0)


@dataclass(frozen=True, slots=True)
class Case:
    """A file as it was read and as it is, what was seen of it, and an edit."""

    read: list[str]
    live: list[Row]
    ops: list[Op]
    seen: list[tuple[int, int]]
    newline: str
    bom: bool
    final: bool
    distinct: bool
    """No two lines of the file are equal, so there is one truth about where an edit belongs."""
    registers: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def stale(self) -> bool:
        """Whether the file has changed since it was read."""
        return [text for _, text in self.live] != self.read

    def unseen(self) -> bool:
        """Whether the edit names a line that was not shown."""
        return any(
            not any(first <= line <= last for first, last in self.seen)
            for op in self.ops
            for line in op.named
        )

    def disk(self, lines: list[str], *, final: bool | None = None) -> str:
        """Return lines in the form of the file on disk."""
        ends = self.final if final is None else final
        content = self.newline.join(lines) + (self.newline if ends and lines else "")
        return ("\ufeff" if self.bom else "") + content

    def patch(self, path: str, tag: str) -> str:
        """Write the edit down in the language."""
        return "\n".join([f"[{path}#{tag}]", *(_written(op) for op in self.ops)])


def draw(chance: random.Random, *, stale: bool) -> Case:
    """Draw a case: a text, perhaps changes by others, and one edit of some hunks."""
    distinct = chance.random() < 0.6
    count = chance.randint(1, 40)
    read = [_line(chance, number, distinct) for number in range(count)]
    live: list[Row] = list(enumerate(read, start=1))
    if stale:
        for _ in range(chance.randint(1, 4)):
            _disturb(chance, live, distinct)
    seen = [(1, count)]
    if chance.random() < 0.2:
        first = chance.randint(1, count)
        seen = [(first, chance.randint(first, count))]
    # An empty last line can only be told from none by the newline behind it.
    final = chance.random() < 0.8 or read[-1] == "" or live[-1][1] == ""
    # A file without any newline does not say which kind it would have.
    ending = "\n" if not final and min(count, len(live)) < 2 else chance.choice(["\n", "\r\n"])
    return Case(
        read=read,
        live=live,
        ops=_ops(chance, count),
        seen=seen,
        newline=ending,
        bom=chance.random() < 0.1,
        final=final,
        distinct=distinct,
        registers={"kept": ("from before", "in two lines")},
    )


def expected(case: Case) -> list[str] | None:
    """Return the lines after the edit by the one truth, None where it has no place any more."""
    where = {number: at for at, (number, _) in enumerate(case.live) if number is not None}
    return _carried_out(case, where)


def possible(case: Case) -> list[list[str]]:
    """Return what the edit may come to where lines are equal: one result for each distance.

    All that it names must read as it did, and stand as it stood.
    """
    results: list[list[str]] = []
    live = [text for _, text in case.live]
    named = [line for op in case.ops for line in op.named]
    for distance in range(-len(case.read), len(live) + 1):
        where = {
            line: line - 1 + distance
            for line in named
            if 0 <= line - 1 + distance < len(live)
            and live[line - 1 + distance] == case.read[line - 1]
        }
        result = _carried_out(case, where)
        if result is not None and (not case.stale or _stands(case, set(named), distance)):
            results.append(result)
    return results


def _stands(case: Case, named: set[int], distance: int) -> bool:
    """Check that what was beside the named lines is beside them still, as far as it must be."""
    live = [text for _, text in case.live]
    for first in sorted(line for line in named if line - 1 not in named):
        last = first
        while last + 1 in named:
            last += 1
        beside = [line for line in (first - 1, last + 1) if 1 <= line <= len(case.read)]
        same = [
            0 <= line - 1 + distance < len(live)
            and live[line - 1 + distance] == case.read[line - 1]
            for line in beside
        ]
        twice = any(
            case.read.count(text) > 1 or live.count(text) > 1
            for text in case.read[first - 1 : last]
        )
        if not any(same) or (twice and not all(same)):
            return False
    return True


def _carried_out(case: Case, where: dict[int, int]) -> list[str] | None:
    places: list[int] = []
    for op in case.ops:
        spots = [where.get(line) for line in op.named]
        if None in spots:
            return None
        numbers = [spot for spot in spots if spot is not None]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False:
            return None
        places.append(numbers[0] if numbers else -1)
    live = [text for _, text in case.live]
    before: list[list[str]] = [[] for _ in live]
    instead: list[list[str] | None] = [None for _ in live]
    after: list[list[str]] = [[] for _ in live]
    head: list[str] = []
    tail: list[str] = []
    gone = [False for _ in live]
    named = dict(case.registers)
    anonymous: tuple[str, ...] = ()
    for op, at in zip(case.ops, places, strict=True):
        rows = list(op.body)
        if op.verb.startswith("paste"):
            rows = list(anonymous if op.register is None else named[op.register])
        length = len(op.named)
        match op.verb:
            case "cut":
                taken = tuple(live[at : at + length])
                if op.register is None:
                    anonymous = taken
                else:
                    named[op.register] = taken
                gone[at : at + length] = [True] * length
            case "replace" | "paste over":
                instead[at] = rows
                gone[at : at + length] = [True] * length
            case "before" | "paste before":
                before[at] += rows
            case "after" | "paste after":
                after[at] += rows
            case "head":
                head += rows
            case _:
                tail += rows
    result = list(head)
    for at, text in enumerate(live):
        result += before[at] + (instead[at] or [])
        if not gone[at]:
            result.append(text)
        result += after[at]
    return result + tail


def _line(chance: random.Random, number: int, distinct: bool) -> str:
    if distinct:
        return f"{'  ' * chance.randint(0, 2)}line {number} {chance.randint(0, 999)}"
    return chance.choice(["", "}", "x", "return", "  y = 1", "  }", "end", "x"])


def _disturb(chance: random.Random, live: list[Row], distinct: bool) -> None:
    """Change the file as somebody else would."""
    at = chance.randint(0, len(live))
    other = f"other {chance.randint(0, 10**9)}" if distinct else _line(chance, 0, False)
    kind = chance.random()
    if kind < 0.5:
        live.insert(at, (None, other))
    elif kind < 0.75 and len(live) > 1:
        del live[min(at, len(live) - 1)]
    else:
        live[min(at, len(live) - 1)] = (None, other)


def _ops(chance: random.Random, count: int) -> list[Op]:
    """Draw hunks that want no line twice, in any order."""
    ops: list[Op] = []
    free = list(range(1, count + 1))
    cut_before = False
    for index in range(chance.choice([1, 1, 1, 2, 3])):
        body = tuple(f"new {index}.{row}" for row in range(chance.randint(1, 3)))
        kind = chance.random()
        if kind < 0.08:
            ops.append(Op(chance.choice(["head", "tail"]), body=body))
        elif kind < 0.35:
            line = chance.randint(1, count)
            # Before line 1 is the head, which names no line.
            verb = "after" if line == 1 else chance.choice(["before", "after"])
            ops.append(Op(verb, line, line, body))
        elif kind < 0.45 and cut_before:
            line = chance.randint(1, count)
            verb = "paste after" if line == 1 else chance.choice(["paste before", "paste after"])
            ops.append(Op(verb, line, line))
        elif free:
            first = chance.choice(free)
            last = first
            while last + 1 in free and chance.random() < 0.5:
                last += 1
            free = [line for line in free if not first <= line <= last]
            if kind < 0.55:
                ops.append(Op("paste over", first, last, register="kept"))
            elif kind < 0.7:
                name = chance.choice([None, "mine"])
                if name is None and cut_before:
                    name = "mine"
                cut_before = cut_before or name is None
                ops.append(Op("cut", first, last, register=name))
            else:
                ops.append(Op("replace", first, last, body))
    return ops


def _written(op: Op) -> str:
    name = f" @{op.register}" if op.register else ""
    body = "".join(f"\n+{row}" for row in op.body)
    places = {"before": f"<{op.first}", "after": f">{op.first}", "head": "<1", "tail": ">$"}
    match op.verb:
        case "cut":
            return f"CUT {op.first}.={op.last}{name}"
        case "replace":
            return f"PUT {op.first}.={op.last}:{body}"
        case "paste over":
            return f"PUT {op.first}.={op.last}{name}"
        case "paste before" | "paste after":
            return f"PUT {places[op.verb.removeprefix('paste ')]}{name}"
        case _:
            return f"PUT {places[op.verb]}:{body}"
