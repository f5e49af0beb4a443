"""How does the tool policy speak? The words for what holds at a node, and why."""

from __future__ import annotations

from typing import Final

from apps.domain.policy import Level, NodeState, Path, Standing, Why, node_words
from apps.grants.models import PolicyNode
from apps.tools.endpoints import Endpoint

FAMILIES: Final = {"kaizen": "Built-in", "packages": "Packages", "mcp": "MCP servers"}


def short_name(path: Path) -> str:
    """Name a node by its own word."""
    if not path:
        return "This deployment"
    return FAMILIES.get(path[0], path[0]) if len(path) == Level.FAMILY else path[-1]


def asks_word(endpoint: Endpoint | None) -> str:
    """Say what a call of a tool does first, as it was declared and as rules tighten that."""
    if endpoint is None:
        return ""
    if endpoint.asks:
        return "asks"
    return "reads" if endpoint.reads_only else "passes"


def stopped(path: Path, standing: Standing) -> tuple[str, str, str]:
    """Say in which words, tone and addition a node is stopped."""
    if standing.why is Why.UNREADABLE:
        return "Cannot be read", "bad", "say it anew"
    if standing.why is Why.NOT_LET_IN:
        return "Not let in", "quiet", "turn its surface on"
    if standing.decided_by == path:
        return "Off", "bad", "" if len(path) < Level.ENDPOINT else "set here"
    return f"Blocked by {short_name(standing.decided_by)}", "bad", ""


def because(path: Path, standing: Standing) -> str:
    """Say why a tool may be called."""
    match standing.why:
        case Why.ALLOWED if standing.decided_by == path:
            return "set here"
        case Why.ALLOWED:
            return f"{standing.decided_by[-1]} is on"
        case _:
            return "follows"


def decided(standing: Standing) -> str:
    """Say which node decided."""
    where = node_words(standing.decided_by)
    match standing.why:
        case Why.DISABLED:
            return f"Stopped at {where}."
        case Why.UNREADABLE:
            return f"What is said at {where} cannot be read."
        case Why.NOT_LET_IN:
            return "Nobody has turned its surface on."
        case Why.ALLOWED:
            return f"Turned on at {where}."
        case Why.OPEN_FAMILY:
            return f"Tools of {where} need no word of their own."
        case Why.NOT_TIGHTENED:
            return "Nothing is said here."


def said(state: NodeState, node: PolicyNode | None, level: Level) -> str:
    """Say what a node says, since when, and by whom."""
    if node is None:
        return "Says nothing." if level >= Level.SURFACE else "Open."
    word = {NodeState.ALLOWED: "On", NodeState.DISABLED: "Off"}.get(state, "Cannot be read")
    since = f"{word} since {node.updated_at:%-d %B %Y}, by {node.changed_by.name}"
    return f"{since}: “{node.note}”." if node.note else f"{since}."
