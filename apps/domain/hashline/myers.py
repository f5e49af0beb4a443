"""Which lines do two texts share? The shortest edit script, found in bounded time.

The greedy algorithm of Myers, after the common ends and all lines that only one side knows are put
aside, neither of which changes how much the texts share.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_STEPS = 2_000_000
"""Beyond this the texts are too different for anything to be proved from their difference."""

Run = tuple[int, int, int]


def common_runs(old: Sequence[str], new: Sequence[str], *, steps: int = MAX_STEPS) -> list[Run]:
    """Return the runs of lines that both share: first line in each, counted from 1, and length.

    Texts that are too different share only what their ends have in common.
    """
    head = _common_head(old, new)
    tail = _common_tail(old, new, head)
    middle = _middle(old[head : len(old) - tail], new[head : len(new) - tail], steps)
    pairs = [(first + head, second + head) for first, second in middle]
    runs = [(1, 1, head)] if head else []
    for first, second in pairs:
        _extend(runs, first + 1, second + 1, 1)
    if tail:
        _extend(runs, len(old) - tail + 1, len(new) - tail + 1, tail)
    return runs


def _extend(runs: list[Run], first: int, second: int, length: int) -> None:
    if runs:
        here, there, count = runs[-1]
        if here + count == first and there + count == second:
            runs[-1] = (here, there, count + length)
            return
    runs.append((first, second, length))


def _common_head(old: Sequence[str], new: Sequence[str]) -> int:
    at = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        at += 1
    return at


def _common_tail(old: Sequence[str], new: Sequence[str], head: int) -> int:
    most = min(len(old), len(new)) - head
    at = 0
    for one, other in zip(reversed(old), reversed(new), strict=False):
        if at == most or one != other:
            break
        at += 1
    return at


def _middle(old: Sequence[str], new: Sequence[str], steps: int) -> list[tuple[int, int]]:
    """Return the pairs of equal lines of a shortest edit script, counted from 0."""
    here, there = set(old), set(new)
    kept_old = [index for index, line in enumerate(old) if line in there]
    kept_new = [index for index, line in enumerate(new) if line in here]
    numbers: dict[str, int] = {}
    first = [numbers.setdefault(old[index], len(numbers)) for index in kept_old]
    second = [numbers.setdefault(new[index], len(numbers)) for index in kept_new]
    return [(kept_old[x], kept_new[y]) for x, y in _shortest(first, second, steps)]


def _shortest(old: list[int], new: list[int], steps: int) -> list[tuple[int, int]]:
    """Go forward along the furthest paths of each cost, then back along the one that arrived.

    `furthest[diagonal]` is how far into the old lines a path has come; a diagonal is the lead of
    the old lines over the new ones. Negative indexes are meant: the list is a ring.
    """
    n, m = len(old), len(new)
    if not n or not m:
        return []
    furthest = [0] * (2 * (n + m) + 3)
    trace: list[list[int]] = []
    for cost in range(n + m + 1):
        trace.append([furthest[diagonal] for diagonal in range(-cost - 1, cost + 2)])
        steps -= 3 * cost
        for diagonal in range(-cost, cost + 1, 2):
            left, right = furthest[diagonal - 1], furthest[diagonal + 1]
            # Written out, as in _goes_down: this line runs up to a million times.
            down = diagonal == -cost or (diagonal != cost and left < right)
            x = right if down else left + 1
            begin = x
            while x < n and x - diagonal < m and old[x] == new[x - diagonal]:
                x += 1
            steps -= x - begin
            furthest[diagonal] = x
            if x >= n and x - diagonal >= m:
                return _back(trace, n, m)
        if steps < 0:
            break
    return []


def _goes_down(diagonal: int, cost: int, left: int, right: int) -> bool:
    return diagonal == -cost or (diagonal != cost and left < right)


def _back(trace: list[list[int]], n: int, m: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    x, y = n, m
    for cost in range(len(trace) - 1, -1, -1):
        diagonal = x - y
        # The slice of this cost begins at diagonal -cost - 1.
        before, middle = trace[cost], diagonal + cost + 1
        down = _goes_down(diagonal, cost, before[middle - 1], before[middle + 1])
        start = before[middle + 1] if down else before[middle - 1] + 1
        while x > start and x > 0:
            x -= 1
            pairs.append((x, x - diagonal))
        # One step back over the insertion or deletion that led here.
        x, y = (start, start - diagonal - 1) if down else (start - 1, start - diagonal)
    pairs.reverse()
    return pairs
