"""Which tools does the tool policy speak of? Our own, and those of packages that may be called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import Exists, F, OuterRef, Q

from apps.domain.policy import (
    ApprovalMode,
    AskRule,
    Level,
    Path,
    approval_mode,
    asks_by_default,
    path_of,
)
from apps.domain.tooling import Effect, Family, Specification
from apps.grants.models import ToolGrant
from apps.packages.models import PackageTool
from apps.tools.packaged import as_tool
from apps.tools.registry import BUILTIN_TOOLS


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One tool, as the policy's pages list it."""

    path: Path
    title: str
    effect: Effect
    asks: bool
    """Whether a call asks where its member chose nothing."""
    switched_off: bool = False

    @property
    def family(self) -> str:
        """Whose tool it is."""
        return self.path[0]

    @property
    def surface(self) -> str:
        """What it belongs to there."""
        return self.path[1]

    @property
    def name(self) -> str:
        """What a model calls it by."""
        return self.path[-1]

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing."""
        return self.effect is Effect.READ


def all_endpoints(rules: Iterable[AskRule] = ()) -> list[Endpoint]:
    """Return every tool that agents could be offered, in the order of the tree; one query.

    Each asks as it was declared, or as these rules tighten that.
    """
    rules = list(rules)
    found = {endpoint.path: endpoint for endpoint in _packaged()}
    found.update((path_of(tool.spec), _own(tool.spec)) for tool in BUILTIN_TOOLS.values())
    return [_under(found[path], rules) for path in sorted(found)]


def _under(endpoint: Endpoint, rules: list[AskRule]) -> Endpoint:
    declared = ApprovalMode.ASK_FIRST_TIME if endpoint.asks else ApprovalMode.PASS
    return replace(endpoint, asks=asks_by_default(endpoint, declared, rules))


def specification_at(path: Path) -> Specification | None:
    """Return the declaration of the tool at a node: of a package, that of its active version."""
    if len(path) != Level.ENDPOINT:
        return None
    own = BUILTIN_TOOLS.get(path[-1])
    if own is not None:
        return own.spec if path_of(own.spec) == path else None
    row = (
        PackageTool.objects.select_related("version__package")
        .filter(name=path[-1], version__package__name=path[1])
        .filter(version_id=F("version__package__active_version_id"))
        .first()
    )
    tool = None if row is None else as_tool(row)
    return tool.spec if tool is not None and path_of(tool.spec) == path else None


def _own(spec: Specification) -> Endpoint:
    return Endpoint(
        path=path_of(spec),
        title=spec.title,
        effect=spec.effect,
        asks=approval_mode(spec).mode.asks,
    )


def _packaged() -> list[Endpoint]:
    # An older version stays callable where an agent still holds a tool of it.
    granted = ToolGrant.objects.filter(
        version_id=OuterRef("version_id"), tool_name=OuterRef("name")
    )
    rows = (
        PackageTool.objects.filter(
            Q(version_id=F("version__package__active_version_id")) | Exists(granted)
        )
        .order_by("version__created_at")
        .values_list(
            "version__package__name",
            "name",
            "definition_id",
            "definition__mutating",
            "version__package__disabled_at",
        )
    )
    return [
        Endpoint(
            path=(Family.PACKAGES.value, package, name),
            title=definition,
            effect=Effect.READ if mutating is False else Effect.WRITE,
            asks=mutating is not False,
            switched_off=disabled is not None,
        )
        for package, name, definition, mutating, disabled in rows
    ]
