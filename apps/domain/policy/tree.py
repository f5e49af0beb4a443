"""What does the deployment allow? A tree of four levels, and which node of it decided.

Root, source family, surface, exact endpoint. Root and source only tighten: open there grants
nothing. A surface that is allowed admits what it has and what it will have. An exact endpoint that
is disabled is an exception under an allowed surface; one that is allowed stands for itself. A node
that is disabled is a ceiling over everything beneath it, whatever was allowed there and when.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

from apps.domain.tooling.specification import Specification

Path = tuple[str, ...]
"""The words from the root down: (), (family,), (family, surface), (family, surface, name)."""

ROOT: Final[Path] = ()
# Our own tools, and those of packages that people admitted and granted one by one, need no word
# from the deployment. What is discovered elsewhere stays out until its surface is let in.
OPEN_FAMILIES: Final = frozenset({"kaizen", "packages"})


class Level(IntEnum):
    """How deep a node lies."""

    ROOT = 0
    FAMILY = 1
    SURFACE = 2
    ENDPOINT = 3


class NodeState(StrEnum):
    """What a node says; `unset` is also what every node says that nobody touched."""

    UNSET = "unset"
    ALLOWED = "allowed"
    DISABLED = "disabled"


class Why(StrEnum):
    """Which kind of word decided."""

    DISABLED = "disabled"
    UNREADABLE = "unreadable"
    ALLOWED = "allowed"
    OPEN_FAMILY = "open_family"
    NOT_LET_IN = "not_let_in"
    NOT_TIGHTENED = "not_tightened"


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds for a node in the end, why, and which node said so."""

    allowed: bool
    why: Why
    decided_by: Path


def level_of(path: Path) -> Level:
    """Return how deep a path leads."""
    return Level(len(path))


def path_of(spec: Specification) -> Path:
    """Return where a tool hangs in the tree."""
    return (str(spec.family), spec.surface, spec.name)


@dataclass(frozen=True, slots=True)
class PolicyTree:
    """What was said at which node; the empty tree keeps open what is open by itself."""

    states: Mapping[Path, NodeState] = field(default_factory=dict)
    unreadable: frozenset[Path] = frozenset()
    open_families: frozenset[str] = OPEN_FAMILIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", MappingProxyType(dict(self.states)))

    def state(self, path: Path) -> NodeState:
        """Return what was said at a node itself."""
        return self.states.get(path, NodeState.UNSET)

    def standing(self, path: Path) -> Standing:
        """Return what holds for a node: the highest ceiling, or else the nearest word that admits.

        For a surface it answers for what hangs there or will; for root and source it says only
        whether they are open.
        """
        for depth in range(len(path) + 1):
            node = path[:depth]
            if node in self.unreadable:
                return Standing(False, Why.UNREADABLE, node)
            if self.state(node) is NodeState.DISABLED:
                return Standing(False, Why.DISABLED, node)
        if level_of(path) < Level.SURFACE:
            return Standing(True, Why.NOT_TIGHTENED, path)
        for depth in range(len(path), Level.FAMILY, -1):
            if self.state(path[:depth]) is NodeState.ALLOWED:
                return Standing(True, Why.ALLOWED, path[:depth])
        family = path[: Level.FAMILY]
        if path[0] in self.open_families:
            return Standing(True, Why.OPEN_FAMILY, family)
        return Standing(False, Why.NOT_LET_IN, family)

    def allows(self, spec: Specification) -> bool:
        """Tell whether the deployment lets a tool be called at all."""
        return self.standing(path_of(spec)).allowed

    def changed(self, changes: Mapping[Path, NodeState]) -> "PolicyTree":
        """Return the tree as it would be after changes; `unset` takes a word back."""
        states = {**self.states, **changes}
        kept = {path: state for path, state in states.items() if state is not NodeState.UNSET}
        return PolicyTree(kept, self.unreadable - changes.keys(), self.open_families)


def node_words(path: Path) -> str:
    """Name a node for a person."""
    match path:
        case ():
            return "the whole deployment"
        case (family,):
            return f"the source {family}"
        case (_, surface):
            return f"the surface {surface}"
        case _:
            return f"the tool {path[-1]}"
