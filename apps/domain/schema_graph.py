"""Which schemas inside a schema are asked about one place of a value, and which about places below?

A validator follows references, so a short schema can ask an unbounded number of questions. This
is the picture of where it may go: a node for each schema that can be reached, an edge for each
way of reaching it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from apps.domain.schema_words import REFERENCES, steps_of, subschemas

Path = tuple[str | int, ...]

# Asked about the very place that the schema itself is asked about.
_HERE_ONE: Final = ("not", "if", "then", "else")
_HERE_MANY: Final = ("allOf", "anyOf", "oneOf")
_HERE_NAMED: Final = ("dependentSchemas", "dependencies")
# Asked about a place below, each place by at most one of these.
_BELOW_APART: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "additionalItems",
    "unevaluatedItems",
)
# Asked about every place below, besides the others.
_BELOW_ALL: Final = ("contains", "propertyNames")
_BRANCHES: Final = ("anyOf", "oneOf", "not", "if", "contains")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
# What matching one pattern or format counts, against comparing one value.
_PATTERN_UNITS: Final = 20


class LeadsNowhere(ValueError):
    """A schema with a reference to a place that it does not have."""


@dataclass(frozen=True, slots=True)
class Node:
    """One schema: what it asks itself, and whom it hands the same place or a place below."""

    units: int = 1
    here: tuple[Path, ...] = ()
    # Groups of schemas; of one group at most one is asked about any one place below.
    below: tuple[tuple[Path, ...], ...] = ()
    # What each place below costs the schema itself.
    below_units: int = 0
    asks_again: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """The reachable schemas by their path, the root under the empty path."""

    nodes: dict[Path, Node]
    branches: bool
    patterns: int
    # A reference leads to something that stands where no keyword expects a schema.
    strays: bool


def graph_of(root: Any) -> Graph:
    """Return the graph of a schema of any dialect that has passed its meta-schema."""
    places = _Places(root)
    nodes: dict[Path, Node] = {}
    found: list[dict[str, Any]] = []
    waiting: list[Path] = [()]
    while waiting:
        path = waiting.pop()
        if path in nodes:
            continue
        schema = places.at(path)
        node = nodes[path] = _node(schema, path, places) if isinstance(schema, dict) else Node()
        found += [schema] if isinstance(schema, dict) else []
        waiting += node.here
        waiting += [target for group in node.below for target in group]
    return Graph(
        nodes,
        branches=any(word in schema for schema in found for word in _BRANCHES),
        patterns=sum(
            ("pattern" in schema) + len(_named(schema, "patternProperties")) for schema in found
        ),
        strays=not all(map(places.holds_schema, nodes)),
    )


def size_of(value: Any) -> int:
    """Count the places of a JSON value."""
    count = 0
    waiting = [value]
    while waiting:
        count += 1
        inner = waiting.pop()
        if isinstance(inner, dict):
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
    return count


class _Places:
    """Where references lead inside one schema document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._bases: dict[Path, str] = {}
        self._resources: dict[str, Path] = {"": ()}
        self._anchors: dict[tuple[str, str], Path] = {}
        self._dynamic: dict[str, list[Path]] = {}
        for path, schema, base in subschemas(root):
            self._bases[path] = base
            if not isinstance(schema, dict):
                continue
            self._resources.setdefault(base, path)
            for keyword in ("$anchor", "$dynamicAnchor"):
                name = schema.get(keyword)
                if isinstance(name, str):
                    self._anchors.setdefault((base, name), path)
                    if keyword == "$dynamicAnchor":
                        self._dynamic.setdefault(name, []).append(path)
            own = schema.get("$id")
            if isinstance(own, str) and own.startswith("#"):
                # The older drafts name a place this way.
                self._anchors.setdefault((base, own[1:]), path)

    def at(self, path: Path) -> Any:
        found = self._root
        for step in path:
            found = found[step]
        return found

    def holds_schema(self, path: Path) -> bool:
        """Tell whether a keyword expects a schema at this place."""
        return path in self._bases

    def targets(self, keyword: str, reference: str, path: Path) -> list[Path]:
        """Return where a reference may lead, or raise `LeadsNowhere`."""
        # Joining would lose a base that is a URN.
        own, outside = self._base_of(path), not reference.startswith("#")
        whole = urljoin(own, reference) if outside else own + reference
        base, fragment = urldefrag(whole)
        home = self._resources.get(base)
        found = home if not fragment else self._anchors.get((base, fragment))
        if home is not None and fragment.startswith("/"):
            steps = steps_of(self.at(home), fragment)
            found = None if steps is None else (*home, *steps)
        if found is None:
            raise LeadsNowhere("A reference in the schema leads nowhere.")
        targets = [found]
        if keyword == "$dynamicRef":
            targets += self._dynamic.get(fragment, [])
        if keyword == "$recursiveRef":
            targets += self._resources.values()
        return list(dict.fromkeys(targets))

    def _base_of(self, path: Path) -> str:
        while path not in self._bases:
            path = path[:-1]
        return self._bases[path]


def _node(schema: dict[str, Any], path: Path, places: _Places) -> Node:
    matched = _named(schema, "patternProperties")
    return Node(
        units=_units(schema),
        here=tuple(_here(schema, path, places)),
        below=tuple(_below(schema, path)),
        below_units=_PATTERN_UNITS * len(matched),
        asks_again=any(word in schema for word in _UNEVALUATED),
    )


def _units(schema: dict[str, Any]) -> int:
    units = 1 + len(schema)
    units += sum(size_of(schema[word]) for word in ("enum", "const") if word in schema)
    required = schema.get("required")
    units += len(required) if isinstance(required, list) else 0
    return units + _PATTERN_UNITS * sum(word in schema for word in ("pattern", "format"))


def _here(schema: dict[str, Any], path: Path, places: _Places) -> Iterator[Path]:
    for word in _HERE_ONE:
        if word in schema:
            yield (*path, word)
    for word in _HERE_MANY:
        if isinstance(schema.get(word), list):
            yield from ((*path, word, index) for index in range(len(schema[word])))
    for word in _HERE_NAMED:
        yield from ((*path, word, name) for name in _schemas_named(schema, word))
    for word in REFERENCES:
        if isinstance(schema.get(word), str):
            yield from places.targets(word, schema[word], path)


def _below(schema: dict[str, Any], path: Path) -> Iterator[tuple[Path, ...]]:
    apart: list[Path] = [(*path, "properties", name) for name in _named(schema, "properties")]
    for word in (*_BELOW_APART, "prefixItems"):
        inner = schema.get(word)
        if isinstance(inner, list):
            apart += [(*path, word, index) for index in range(len(inner))]
        elif isinstance(inner, dict | bool):
            apart.append((*path, word))
    if apart:
        yield tuple(apart)
    yield from (((*path, word),) for word in _BELOW_ALL if word in schema)
    for name in _named(schema, "patternProperties"):
        yield ((*path, "patternProperties", name),)


def _named(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _schemas_named(schema: dict[str, Any], keyword: str) -> Iterator[str]:
    # The old `dependencies` also maps names to lists of property names.
    return (name for name, inner in _named(schema, keyword).items() if not isinstance(inner, list))
