"""How much may judging a value by a schema cost, and what do we refuse before it is spent?

The engine runs inside our own processes and cannot be interrupted, so its work is bounded
beforehand: by what a schema may ask about one place of a value, times the places there are.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from apps.domain.schema_graph import Graph, Path, graph_of

MAX_UNITS: Final = 100_000
MAX_PATTERNS: Final = 64
# Compiled patterns share this much; what is larger may take a second over a long text.
PATTERN_BYTES: Final = 128 * 1024
_LARGEST_PATTERN: Final = 64 * 1024
# A judgement of so many questions takes a second or two.
JUDGEMENT_UNITS: Final = 3_000_000
# Explaining what is wrong costs far more than seeing that something is.
EXPLANATION_UNITS: Final = 50_000
_COUNT_STOPS_AT: Final = JUDGEMENT_UNITS


class TooCostly(ValueError):
    """A schema that asks too much, or asks itself the same question without end."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


@dataclass(frozen=True, slots=True)
class Cost:
    """What a schema may ask about one place, and how its reasons multiply with depth."""

    units: int
    branches: bool
    # By how much the ways to one place may multiply with each level; 1 where they never do.
    growth: int
    pattern_bytes: int
    # Whether a reference leads to what no check of the schema has looked at.
    strays: bool

    def judges(self, value: Any) -> bool:
        """Tell whether a value is small enough to be judged."""
        places, _ = measure(value, most=JUDGEMENT_UNITS // self.units)
        return places * self.units <= JUDGEMENT_UNITS

    def explains(self, value: Any) -> Literal["all", "first", "none"]:
        """Tell how many of the reasons against a value we can afford to ask for."""
        places, depth = measure(value, most=EXPLANATION_UNITS // self.units)
        # Beyond this depth the product is past every bound, whatever it is exactly.
        work = places * self.units * self.growth ** min(depth, 64)
        if work <= EXPLANATION_UNITS:
            return "all"
        # The engine looks at every branch of a branching schema before it gives its first reason.
        return "none" if self.branches or self.growth > 1 else "first"


def cost_of(schema: Any) -> Cost:
    """Return what a schema may cost, or raise `TooCostly`."""
    graph = graph_of(schema)
    if graph.patterns > MAX_PATTERNS:
        raise TooCostly("patterns", f"The schema has more than {MAX_PATTERNS} patterns.")
    nodes = graph.nodes
    here = _ordered(nodes, lambda path: nodes[path].here)
    if here is None:
        raise TooCostly(
            "loop", "A reference leads back to the schema that it stands in, and no deeper."
        )
    asked: dict[Path, int] = {}
    groups: dict[Path, int] = {}
    for path in here:
        node = nodes[path]
        asked[path] = _bounded(node.units + sum(asked[target] for target in node.here))
        groups[path] = _bounded(len(node.below) + sum(groups[target] for target in node.here))
    units, recursive = _at_one_place(graph, here, asked)
    if max(units, *asked.values()) > MAX_UNITS:
        raise TooCostly(
            "cost", f"The schema unfolds into more than {MAX_UNITS:,} questions about one place."
        )
    return Cost(
        units=units,
        branches=graph.branches,
        growth=max(1, *groups.values()) if recursive else 1,
        strays=graph.strays,
        pattern_bytes=min(_LARGEST_PATTERN, PATTERN_BYTES // max(graph.patterns, 1)),
    )


def measure(value: Any, *, most: int) -> tuple[int, int]:
    """Count the places of a value and its levels, up to a little over the given number."""
    places, depth = 1, 0
    level: list[Any] = [value]
    while level and places <= most:
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list | tuple):
                inner += one
        places += len(inner)
        depth += bool(inner)
        level = inner
    return places, depth


def longest_text(value: Any) -> int:
    """Return the length of the longest string in a value, names included."""
    longest = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            longest = max(longest, len(one))
        elif isinstance(one, dict):
            waiting += (*one.keys(), *one.values())
        elif isinstance(one, list | tuple):
            waiting += one
    return longest


def _at_one_place(graph: Graph, here: list[Path], asked: dict[Path, int]) -> tuple[int, bool]:
    """Return the most that is asked about any one place, and whether the schema is recursive."""
    nodes = graph.nodes

    def everywhere(path: Path) -> Iterator[Path]:
        yield from nodes[path].here
        for group in nodes[path].below:
            yield from group

    order = _ordered(nodes, everywhere)
    if order is None:
        # Where a value is judged again and again by one schema, the engine remembers what it
        # found at each place, so that each schema is asked once about each.
        again = max(asked.values())
        return _bounded(sum(node.units + node.below_units for node in nodes.values()) + again), True
    below: dict[Path, int] = {}
    most: dict[Path, int] = {}
    for path in order:
        node = nodes[path]
        own = node.below_units + sum(max(most[target] for target in group) for group in node.below)
        # What no other keyword looked at is found by asking all of them once more.
        own += asked[path] if node.asks_again else 0
        below[path] = _bounded(own + sum(below[target] for target in node.here))
        most[path] = max(asked[path], below[path])
    return most[()], False


def _ordered(nodes: Iterable[Path], edges: Callable[[Path], Iterable[Path]]) -> list[Path] | None:
    """Return the nodes such that each follows those that it leads to; None for a circle."""
    done: dict[Path, bool] = {}
    order: list[Path] = []
    for start in nodes:
        stack = [(start, iter(edges(start)))] if start not in done else []
        done.setdefault(start, False)
        while stack:
            path, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                stack.pop()
                done[path] = True
                order.append(path)
            elif target not in done:
                done[target] = False
                stack.append((target, iter(edges(target))))
            elif not done[target]:
                return None
    return order


def _bounded(count: int) -> int:
    # Numbers past every bound need not grow any further.
    return min(count, _COUNT_STOPS_AT)
