"""What does the page of the tool policy show? The tree with what holds at each node, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from apps.approvals.wishes import rules_in_force
from apps.boundary.policy_words import (
    asks_word,
    because,
    decided,
    said,
    short_name,
    stopped,
)
from apps.domain.policy import (
    OPEN_FAMILIES,
    ROOT,
    Level,
    NodeState,
    Path,
    PolicyTree,
    Standing,
    Why,
    level_of,
    node_words,
)
from apps.domain.tooling import Effect, Family
from apps.grants.models import PolicyNode, PolicyState
from apps.grants.policy import read_tree
from apps.tools.endpoints import Endpoint, all_endpoints

SURFACES_PER_PAGE = 50
MOST_FOUND = 200

_STATES: Final = {NodeState.UNSET: "Follow", NodeState.ALLOWED: "On", NodeState.DISABLED: "Off"}
_CEILINGS: Final = {NodeState.UNSET: "Open", NodeState.DISABLED: "Off"}
_ICONS: Final = {"kaizen": "bolt", "packages": "deployed_code", "mcp": "link"}
SHOWS: Final = {"all": "All", "set": "Set here", "blocked": "Blocked"}


@dataclass(frozen=True, slots=True)
class Option:
    """One position of a node's switch."""

    value: str
    word: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One node of the tree, as a line of the page."""

    path: Path
    level: int
    name: str
    icon: str
    options: tuple[Option, ...]
    effect: str
    tone: str
    because: str
    asks: str = ""
    opens: str = ""
    is_open: bool = False
    why: str = ""

    @property
    def field(self) -> str:
        """The name of its switch in the form."""
        return f"node:{'/'.join(self.path)}"


@dataclass(frozen=True, slots=True)
class Link:
    """One node between the root and a tool, and what it says."""

    words: str
    says: str
    mark: str
    icon: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node stands as it does, from the root down."""

    name: str
    verdict: str
    tone: str
    links: tuple[Link, ...]
    path: Path
    is_tool: bool


@dataclass(slots=True)
class Asked:
    """What somebody wants to see: a search, a filter, opened surfaces, a page, a reason."""

    query: str = ""
    show: str = "all"
    opened: tuple[str, ...] = ()
    page: int = 1
    why: str = ""

    def link(self, **changes: Any) -> str:
        """Return the address of this page with something else asked."""
        asked = {
            "q": self.query,
            "show": "" if self.show == "all" else self.show,
            "open": self.opened,
            "page": self.page if self.page > 1 else "",
            "why": self.why,
            **changes,
        }
        pairs = {name: value for name, value in asked.items() if value not in ("", (), None)}
        return "?" + urlencode(pairs, doseq=True)

    def showing(self, show: str) -> str:
        """Return the address of this page under another filter."""
        return self.link(show="" if show == "all" else show, page="", open=())


@dataclass(frozen=True, slots=True)
class PolicySheet:
    """The whole page."""

    asked: Asked
    state: PolicyState
    rows: list[Row]
    reason: Reason | None
    page: int
    pages: int
    left_out: int
    shows: list[tuple[str, str, bool]] = field(default_factory=list)

    @property
    def back(self) -> str:
        """The address of the page before this one, if any."""
        return self.asked.link(page=self.page - 1, why="") if self.page > 1 else ""

    @property
    def next(self) -> str:
        """The address of the page after this one, if any."""
        return self.asked.link(page=self.page + 1, why="") if self.page < self.pages else ""


def policy_sheet(asked: Asked) -> PolicySheet:
    """Gather the page: four queries, however many tools there are."""
    endpoints = all_endpoints(rules_in_force())
    nodes = {node.path: node for node in PolicyNode.objects.select_related("changed_by")}
    drawn = _Drawing(asked, endpoints, nodes)
    rows = list(drawn.rows())
    return PolicySheet(
        asked=asked,
        state=PolicyState.objects.select_related("changed_by").first() or PolicyState(),
        rows=rows,
        reason=drawn.reason(),
        page=drawn.page,
        pages=drawn.pages,
        left_out=drawn.left_out,
        shows=[
            (
                asked.link(show="" if key == "all" else key, page="", open=()),
                word,
                key == asked.show,
            )
            for key, word in SHOWS.items()
        ],
    )


class _Drawing:
    """The tree on its way to being lines."""

    def __init__(
        self, asked: Asked, endpoints: list[Endpoint], nodes: Mapping[Path, PolicyNode]
    ) -> None:
        self.asked = asked
        self.nodes = nodes
        self.tree = tree_of(nodes.values())
        self.endpoints = {endpoint.path: endpoint for endpoint in endpoints}
        self.beneath: dict[Path, list[Endpoint]] = {}
        self.all: dict[Path, int] = {}
        self.callable: dict[Path, int] = {}
        self._count(endpoints)
        self.page = self.pages = 1
        self.left_out = 0

    def _count(self, endpoints: Iterable[Endpoint]) -> None:
        for endpoint in endpoints:
            self.beneath.setdefault(endpoint.path[: Level.SURFACE], []).append(endpoint)
            allowed = self.tree.standing(endpoint.path).allowed
            for depth in range(Level.ENDPOINT):
                node = endpoint.path[:depth]
                self.all[node] = self.all.get(node, 0) + 1
                self.callable[node] = self.callable.get(node, 0) + allowed
        # What was said about a tool that is gone still stands there, and can be taken back.
        for path in self.nodes:
            if len(path) == Level.ENDPOINT and path not in self.endpoints:
                gone = Endpoint(path, "", effect=Effect.WRITE, asks=False)
                self.beneath.setdefault(path[: Level.SURFACE], []).append(gone)

    def rows(self) -> Iterator[Row]:
        """Draw root, sources, surfaces, and the tools of what is open or was looked for."""
        shown = self._shown()
        surfaces = sorted(shown)
        self.pages = max(1, -(-len(surfaces) // SURFACES_PER_PAGE))
        self.page = min(max(1, self.asked.page), self.pages)
        first = (self.page - 1) * SURFACES_PER_PAGE
        surfaces = surfaces[first : first + SURFACES_PER_PAGE]
        yield self._row(ROOT)
        for family in sorted(self._families(surfaces)):
            yield self._row((family,))
            for surface in surfaces:
                if surface[0] != family:
                    continue
                tools = shown[surface]
                yield self._row(surface, is_open=tools is not None)
                for endpoint in tools or ():
                    yield self._row(endpoint.path)

    def _families(self, surfaces: Iterable[Path]) -> set[str]:
        said = {path[0] for path in self.nodes if len(path) == Level.FAMILY}
        every = self.asked.show == "all" and not self.asked.query
        return {surface[0] for surface in surfaces} | (set(OPEN_FAMILIES) | said if every else said)

    def _shown(self) -> dict[Path, list[Endpoint] | None]:
        """Return the surfaces to draw, each with its tools, or None where it stays closed."""
        said = {path[: Level.SURFACE] for path in self.nodes if len(path) >= Level.SURFACE}
        surfaces = set(self.beneath) | said
        if self.asked.show == "all" and not self.asked.query:
            return {
                surface: self.beneath.get(surface, []) if self._is_open(surface) else None
                for surface in surfaces
            }
        found: dict[Path, list[Endpoint] | None] = {}
        count = 0
        for surface in sorted(surfaces):
            tools = [tool for tool in self.beneath.get(surface, []) if self._is_sought(tool.path)]
            if not tools and not self._is_sought(surface):
                continue
            kept = tools[: max(0, MOST_FOUND - count)]
            count += len(kept)
            self.left_out += len(tools) - len(kept)
            found[surface] = kept
        return found

    def _is_open(self, surface: Path) -> bool:
        return surface[0] == Family.KAIZEN.value or "/".join(surface) in self.asked.opened

    def _is_sought(self, path: Path) -> bool:
        query = self.asked.query.casefold()
        if query and not any(query in word.casefold() for word in path[1:]):
            return False
        match self.asked.show:
            case "set":
                return path in self.nodes
            case "blocked":
                return not self.tree.standing(path).allowed
            case _:
                return True

    def _row(self, path: Path, *, is_open: bool = False) -> Row:
        level = level_of(path)
        effect, tone, because = self._effect(path)
        endpoint = self.endpoints.get(path)
        key = "/".join(path)
        opened = tuple(word for word in self.asked.opened if word != key)
        if level is Level.SURFACE and not is_open:
            opened = (*opened, key)
        toggles = level is Level.SURFACE and path[0] != Family.KAIZEN.value
        return Row(
            path=path,
            level=int(level) + 1,
            name=short_name(path),
            icon=_ICONS.get(path[0], "public") if level is Level.FAMILY else "",
            options=self._options(path),
            effect=effect,
            tone=tone,
            because=because,
            asks=asks_word(endpoint),
            opens=self.asked.link(open=opened) if toggles else "",
            is_open=is_open,
            why=self.asked.link(why=key or "root") + "#why",
        )

    def _options(self, path: Path) -> tuple[Option, ...]:
        words = _STATES if level_of(path) >= Level.SURFACE else _CEILINGS
        # What cannot be read stands at no position, so that saving something else leaves it shut.
        said = None if path in self.tree.unreadable else self.tree.state(path)
        return tuple(Option(state.value, word, state is said) for state, word in words.items())

    def _effect(self, path: Path) -> tuple[str, str, str]:
        standing = self.tree.standing(path)
        endpoint = self.endpoints.get(path)
        if level_of(path) < Level.ENDPOINT:
            return self._effect_of_many(path, standing)
        if not standing.allowed:
            return stopped(path, standing)
        if endpoint is None:
            return "No such tool now", "quiet", "said for later"
        if endpoint.switched_off:
            return "Package is off", "bad", "switched off as a whole"
        if endpoint.asks:
            return "Callable, asks", "wait", because(path, standing)
        return "Callable", "ok", because(path, standing)

    def _effect_of_many(self, path: Path, standing: Standing) -> tuple[str, str, str]:
        number = self.all.get(path, 0)
        if not standing.allowed:
            effect, tone, because = stopped(path, standing)
            return effect, tone, because or f"{number:,} beneath"
        words = f"{self.callable.get(path, 0):,} of {number:,} callable"
        new = level_of(path) is Level.SURFACE and standing.why is Why.ALLOWED
        return words if number else "No tools yet", "", "new tools are on" if new else ""

    def reason(self) -> Reason | None:
        """Return why the node that was asked about stands as it does."""
        if not self.asked.why:
            return None
        path = ROOT if self.asked.why == "root" else tuple(self.asked.why.split("/"))
        if len(path) > Level.ENDPOINT or not all(path):
            return None
        standing = self.tree.standing(path)
        links = tuple(self._link(path[:depth], standing) for depth in range(len(path) + 1))
        verdict = "The tree lets it through." if standing.allowed else "No agent can call this."
        return Reason(
            name=short_name(path),
            verdict=f"{verdict} {decided(standing)}",
            tone="ok" if standing.allowed else "bad",
            links=links,
            path=path,
            is_tool=path in self.endpoints,
        )

    def _link(self, path: Path, standing: Standing) -> Link:
        node = self.nodes.get(path)
        words = node_words(path).capitalize()
        beyond = not standing.allowed and len(path) > len(standing.decided_by)
        stops = not standing.allowed and path == standing.decided_by
        says = said(self.tree.state(path), node, level_of(path))
        if beyond and self.tree.state(path) is NodeState.ALLOWED:
            says += " It has no say: an Off above always wins."
        mark, icon = ("stop", "cancel") if stops else ("ok", "check_circle")
        if beyond:
            mark, icon = "mute", "more_horiz"
        return Link(words=words, says=says, mark=mark, icon=icon)


def tree_of(nodes: Iterable[PolicyNode]) -> PolicyTree:
    """Return the tree that rows of nodes make."""
    return read_tree((node.family, node.surface, node.endpoint, node.state) for node in nodes)
