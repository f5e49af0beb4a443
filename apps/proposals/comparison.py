"""What would a package let an agent do, and what of it is wider than before?

Everything is written from the two contracts. An author's own words appear as quotations only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.domain.manifests import Manifest, PackageTool
from apps.domain.packagetools import ANY_HOST
from apps.domain.runtimes import RUNTIME_WORDS
from apps.domain.tooling import MAX_PAUSE_S
from apps.proposals.programs import beside_words, entry_words

_EFFECT_WORDS = {
    "reads": "reads",
    "writes": "writes",
    "deletes": "deletes",
    "network": "wants a network",
    "spawns-run": "starts runs",
    "emits-event": "sends events",
    "external-side-effect": "changes something outside",
    "sensitive-data-egress": "hands out sensitive data",
}
_ROOM_WORDS = {
    "actor_bound_read": "reads, for the member whom the run works for",
    "actor_private_read": "reads what only the acting member may see",
    "actor_bound_write": "writes, for the member whom the run works for",
    "unknown": "stays out of shared rooms",
}
# What is said of every package tool, because the sandbox and the boundary see to it.
ALWAYS = "It can’t {}read this machine’s files, start runs, or act for anyone but the caller."
_NO_NETWORK = "use a network, see keys or secrets, "


@dataclass(frozen=True, slots=True)
class Say:
    """One sentence about what the package lets an agent do."""

    icon: str
    lead: str
    text: str
    tag: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a tool's contract, before and after."""

    label: str
    before: str
    after: str
    mono: bool = False

    @property
    def changed(self) -> bool:
        """Whether the two sides differ."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One tool, before and after."""

    name: str
    effect: str
    status: str
    wider: tuple[str, ...]
    rows: tuple[Row, ...]
    schemas: tuple[tuple[str, str, str], ...]

    @property
    def changed_rows(self) -> int:
        """How many lines differ."""
        return sum(row.changed for row in self.rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A contract beside the active one."""

    tools: tuple[ToolChange, ...]
    says: tuple[Say, ...]

    @property
    def reach(self) -> str:
        """Say in one word how the whole compares: new, wider, changed or same."""
        if all(tool.status == "new" for tool in self.tools):
            return "new"
        if any(tool.wider or tool.status == "new" for tool in self.tools):
            return "wider"
        return "same" if all(tool.status == "same" for tool in self.tools) else "changed"

    @property
    def changed_tools(self) -> int:
        """How many tools are not as before."""
        return sum(tool.status != "same" for tool in self.tools)


def compare_contracts(before: Manifest | None, after: Manifest) -> Comparison:
    """Compare a proposed contract with the active one, tool by tool, wider reach first."""
    old = {tool.tool_name: tool for tool in before.tools} if before else {}
    new = {tool.tool_name: tool for tool in after.tools}
    changes = [_compare_tool(old.get(tool.tool_name), tool) for tool in after.tools]
    changes += [_compare_tool(tool, None) for key, tool in old.items() if key not in new]
    says = [
        _say(change, tool, before is not None)
        for change, tool in zip(changes, (*after.tools, *_gone(old, new)), strict=True)
    ]
    says = [*_reaching(before, after), *says]
    says.sort(key=lambda say: {"bad": 0, "wait": 1, "info": 2}.get(say.tone, 3))
    says += _beside(before, after)
    confined = not any(tool.network for tool in after.tools)
    says.append(Say("lock", "", ALWAYS.format(_NO_NETWORK if confined else ""), "always"))
    return Comparison(tuple(changes), tuple(says))


def _beside(before: Manifest | None, after: Manifest) -> list[Say]:
    """Say which programs and artifacts stand beside the tools, new ones as such."""
    known = set(beside_words(before)) if before is not None else set()
    return [
        Say("terminal", lead, text, *(("", "") if (lead, text) in known else ("new", "info")))
        for lead, text in beside_words(after)
    ]


def _reaching(before: Manifest | None, after: Manifest) -> list[Say]:
    """Say first which hosts outside are reached, by which tools, and with which secrets."""
    known = {host for tool in (before.tools if before else ()) for host in tool.reaches}
    hosts: dict[str, list[PackageTool]] = {}
    for tool in after.tools:
        for host in tool.reaches:
            hosts.setdefault(host, []).append(tool)
    says = []
    for host, tools in sorted(hosts.items()):
        names = _joined([tool.tool_name for tool in tools])
        carried = sorted({one for tool in tools for one in _carried(tool)})
        text = f"{names} can send there whatever the call was given."
        if carried:
            text += f" Kaizen adds {_joined(carried)}, which no code of the package sees."
        if host == ANY_HOST:
            text += " This deployment has to allow that for packages as well."
        fresh = host not in known
        tag = "network" if not fresh else "new host" if before else "network"
        says.append(Say("public", f"Reach {host}.", text, tag, "bad" if fresh else "info"))
    return says


def _carried(tool: PackageTool) -> list[str]:
    request = tool.request
    if request is None or request.authorization is None:
        return []
    if request.authorization.connection:
        need = tool.definition["needsSpec"]["connections"][request.authorization.connection]
        whose = "the member’s" if need["as"] == "person" else "the company’s"
        return [f"{whose} connection to {need['app']}"]
    return [f"the secret {name}" for name in request.secrets]


def _gone(old: dict[str, PackageTool], new: dict[str, PackageTool]) -> list[PackageTool]:
    return [tool for key, tool in old.items() if key not in new]


def _compare_tool(before: PackageTool | None, after: PackageTool | None) -> ToolChange:
    shown = after or before
    if shown is None:
        raise ValueError("A comparison needs a tool on one side.")
    rows = tuple(
        Row(label, left, right, mono)
        for (label, left, mono), (_, right, _) in zip(_lines(before), _lines(after), strict=True)
    )
    schemas = tuple(
        (label, _pretty(before, field), _pretty(after, field))
        for label, field in (("Input", "input"), ("Output", "output"))
    )
    if before is None or after is None:
        status = "new" if before is None else "removed"
        return ToolChange(shown.tool_name, _effect(shown), status, (), rows, schemas)
    same = before.definition_text == after.definition_text and (
        before.entry,
        before.collaboration,
        before.runtime,
        _carrier(before),
    ) == (after.entry, after.collaboration, after.runtime, _carrier(after))
    status = "same" if same else "changed"
    wider = tuple(_wider(before, after))
    return ToolChange(shown.tool_name, _effect(shown), status, wider, rows, schemas)


def _wider(before: PackageTool, after: PackageTool) -> Iterable[str]:
    """Yield what the new contract may do that the old one could not."""
    if after.mutating and not before.mutating:
        yield "now changes something"
    if before.mutating and not after.mutating:
        yield "no longer asks"
    added = [effect for effect in _effects(after) if effect not in _effects(before)]
    if added:
        yield "effects widened: " + ", ".join(added)
    for word, unit in (("memMB", "MB memory"), ("cpuMs", "ms CPU")):
        old, new = (before.limits or {}).get(word), (after.limits or {}).get(word)
        if new != old and (new is None or (old is not None and new > old)):
            yield f"limit raised to {new:,} {unit}" if new else f"limit of {unit} removed"
    if before.definition.get("resultIsOutsideData") and not after.definition.get(
        "resultIsOutsideData"
    ):
        yield "result no longer marked as outside data"
    if after.link_goes_to and before.link_goes_to != after.link_goes_to:
        yield "may wait for another system’s answer, asked by " + after.link_goes_to
    hosts = [host for host in after.reaches if host not in before.reaches]
    if hosts:
        yield "reaches " + ", ".join(hosts[:8])
    if before.collaboration.value == "unknown" and after.collaboration.value != "unknown":
        yield "now offered in shared rooms"


def _say(change: ToolChange, tool: PackageTool, is_update: bool) -> Say:
    if change.status == "removed":
        return Say("block", f"{change.name} is gone.", "Agents can no longer call it.", "removed")
    text = f"{_does(tool)} {_asks(tool)}{_waits(tool)}"
    icon = {"read": "visibility", "sensitive": "shield"}.get(change.effect, "edit")
    if change.wider:
        first = "; ".join(change.wider)
        lead = f"{change.name}: {first}."
        return Say("open_in_full", lead, text, "wider reach", "bad")
    lead = f"Call {change.name}."
    if change.status == "new":
        tag, tone = ("new tool", "bad") if is_update else ("new", "info")
        return Say(icon, lead, text, tag, tone)
    return Say(icon, lead, text, change.status, "wait" if change.status == "changed" else "")


def _does(tool: PackageTool) -> str:
    effects = _effects(tool)
    if effects:
        return f"It declares that it {_joined(effects)}."
    if tool.mutating:
        return "It declares no effects, and does not say that it changes nothing."
    return "It computes from its arguments and changes nothing."


def _asks(tool: PackageTool) -> str:
    if tool.mutating:
        return "Every call waits for the member’s yes."
    return "Calls pass without asking."


def _waits(tool: PackageTool) -> str:
    """Say whose answer a call may become, and for how long it may wait."""
    if not tool.link_goes_to:
        return ""
    return (
        f" A call may wait up to {MAX_PAUSE_S // 86_400} days for another system: Kaizen sends it a"
        f" link ({tool.link_goes_to}), and whoever has the link answers the call, once. The code"
        " never sees the link."
    )


def _carrier(tool: PackageTool) -> bytes:
    return tool.courier.definition_text if tool.courier is not None else b""


def _effects(tool: PackageTool) -> list[str]:
    found = []
    for effect in tool.definition.get("effects", []):
        words = _EFFECT_WORDS[effect["kind"]]
        resource = effect.get("resource")
        found.append(f"{words} {resource}" if resource else words)
    return found


def _effect(tool: PackageTool) -> str:
    return tool.specification().effect.value


def _lines(tool: PackageTool | None) -> Sequence[tuple[str, str, bool]]:
    """Return label, value and whether it is code, for every line of a tool's contract."""
    if tool is None:
        return [(label, "", mono) for label, mono in _LABELS]
    definition = tool.definition
    limits = tool.limits or {}
    values = (
        definition["description"],
        {"read": "Reads", "write": "Writes", "sensitive": "Sensitive"}[_effect(tool)],
        "Every time" if tool.mutating else "Passes without asking",
        _joined(_effects(tool)) or "none",
        _fields(definition["input"]),
        _fields(definition["output"]),
        f"{limits.get('memMB', '—')} MB memory, {limits.get('cpuMs', '—')} ms CPU"
        if limits
        else "the deployment’s",
        ", ".join(tool.reaches) or "none",
        tool.link_goes_to or "nobody",
        _ROOM_WORDS[tool.collaboration.value],
        "marked as outside data" if tool.specification().outside_data else "plain",
        entry_words(tool.entry),
        RUNTIME_WORDS[tool.runtime],
        definition["version"],
    )
    return [(label, value, mono) for (label, mono), value in zip(_LABELS, values, strict=True)]


_LABELS = (
    ("Author’s description", False),
    ("Effect", False),
    ("Asks", False),
    ("Declared effects", False),
    ("Input", True),
    ("Output", True),
    ("Limits", False),
    ("Reaches", False),
    ("Waits for", False),
    ("In shared rooms", False),
    ("Result", False),
    ("Entry", True),
    ("Runs in", False),
    ("Version", True),
)


def _fields(schema: dict[str, Any]) -> str:
    """Return the fields of an object schema as `name: type`, optional ones with a question mark."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        kind = schema.get("type", "anything")
        return str(kind) if isinstance(kind, str) else "anything"
    required = schema.get("required", [])
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {_kind(part)}"
        for name, part in list(properties.items())[:40]
    )


def _kind(schema: Any) -> str:
    kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _pretty(tool: PackageTool | None, field: str) -> str:
    if tool is None:
        return ""
    return json.dumps(tool.definition[field], ensure_ascii=False, indent=2, sort_keys=True)


def _joined(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
