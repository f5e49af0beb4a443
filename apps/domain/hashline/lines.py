"""A set of line numbers, kept as ranges: a file of a million lines that was seen whole is one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineSet:
    """Line numbers from 1, as sorted ranges that neither meet nor overlap."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> LineSet:
        """Return the set of all lines in these ranges, whatever their order."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(pair for pair in ranges if pair[0] <= pair[1]):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        return cls(tuple(joined))

    @classmethod
    def of_lines(cls, lines: Iterable[int]) -> LineSet:
        """Return the set of these single lines."""
        return cls.of((line, line) for line in lines)

    def __contains__(self, line: int) -> bool:
        """Tell whether one line is in the set."""
        at = bisect_right(self.ranges, (line, 1 << 62)) - 1
        return at >= 0 and self.ranges[at][1] >= line

    def __iter__(self) -> Iterator[int]:
        """Go through the lines in order."""
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        """Return how many lines there are."""
        return sum(last - first + 1 for first, last in self.ranges)

    def __or__(self, other: LineSet) -> LineSet:
        """Return the lines of both sets."""
        return LineSet.of((*self.ranges, *other.ranges)) if other.ranges else self

    def without(self, other: LineSet) -> LineSet:
        """Return the lines of this set that are not in the other."""
        left: list[tuple[int, int]] = []
        holes = other.ranges
        at = 0
        for first, last in self.ranges:
            while at < len(holes) and holes[at][1] < first:
                at += 1
            begin, hole = first, at
            while hole < len(holes) and holes[hole][0] <= last:
                left.append((begin, holes[hole][0] - 1))
                begin = holes[hole][1] + 1
                hole += 1
            left.append((begin, last))
        return LineSet.of(left)

    def moved(self, kept: Iterable[tuple[int, int, int]]) -> LineSet:
        """Carry the lines over to another text.

        `kept` says which runs of lines are in both: first line here, first line there, length.
        """
        carried: list[tuple[int, int]] = []
        at = 0
        for here, there, length in kept:
            while at < len(self.ranges) and self.ranges[at][1] < here:
                at += 1
            reach = at
            while reach < len(self.ranges) and self.ranges[reach][0] < here + length:
                first, last = self.ranges[reach]
                carried.append(
                    (max(first, here) - here + there, min(last, here + length - 1) - here + there)
                )
                reach += 1
        return LineSet.of(carried)
