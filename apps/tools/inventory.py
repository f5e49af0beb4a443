"""What does the page that lists our own tools say? Only what their specifications say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from apps.domain.policy import declared_mode
from apps.domain.tooling import DeclaredEffect, RepeatPolicy, Specification
from apps.tools.contract import Tool
from apps.tools.registry import BUILTIN_TOOLS, THE_SET

PAGE: Final = Path("docs", "tools-inventory.md")

_HEAD: Final = """\
# The tools of our own

Every tool that comes with Kaizen: {count}. This page is generated from their specifications by
`manage.py tools inventory`, so nobody edits it by hand. [Tools](tools.md) says what the words mean
and how a tool is added. To be listed here is not to be offered: ceilings and policy decide that.
"""
_COLUMNS: Final = (
    ("tool", lambda spec: f"[`{spec.name}`](#{spec.name})"),
    ("kind", lambda spec: spec.effect.value),
    ("effects", lambda spec: _effects(spec)),
    ("trace", lambda spec: spec.side_effect_class.value),
    ("guard", lambda spec: spec.guard.value),
    ("lands", lambda spec: spec.effect_domain.value),
    ("capability", lambda spec: spec.capability.value),
    ("approval", lambda spec: declared_mode(spec).value),
    ("rooms", lambda spec: spec.collaboration.value),
    ("time", lambda spec: f"{spec.timeout_s:g} s"),
)


def page_path() -> Path:
    """Return where the page lies."""
    return Path(settings.BASE_DIR) / PAGE


def inventory_page(tools: Mapping[str, Tool] = BUILTIN_TOOLS) -> str:
    """Return the whole page."""
    specs = [tools[name].spec for name in sorted(tools)]
    lines = [_HEAD.format(count=len(specs)), *_table(specs)]
    for spec in specs:
        lines += ["", *_section(spec)]
    return "\n".join(lines) + "\n"


def is_stale() -> bool:
    """Tell whether the page that lies there says anything else than the specifications do."""
    path = page_path()
    return not path.is_file() or path.read_text(encoding="utf-8") != inventory_page()


def _table(specs: list[Specification]) -> Iterator[str]:
    yield _row(title for title, _ in _COLUMNS)
    yield _row("---" for _ in _COLUMNS)
    for spec in specs:
        yield _row(say(spec) for _, say in _COLUMNS)


def _section(spec: Specification) -> Iterator[str]:
    yield f"## {spec.name}"
    yield ""
    yield f"{spec.title}, version {spec.version}. {THE_SET[spec.name].why}"
    yield ""
    yield f"> {' '.join(spec.description.split())}"
    yield ""
    for line in (*_arguments(spec), *_facts(spec)):
        yield f"- {line}"


def _arguments(spec: Specification) -> Iterator[str]:
    schema = spec.input_schema
    required = schema.get("required", [])
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        yield "takes no arguments"
    for name, declared in properties.items():
        kind = declared.get("type", "any value") if isinstance(declared, dict) else "any value"
        yield f"takes `{name}`: {kind}{'' if name in required else ', optional'}"


def _facts(spec: Specification) -> Iterator[str]:
    yield f"risk {spec.risk}; arguments of at most {spec.argument_cap:,} bytes"
    if spec.parallel_safe:
        yield "runs beside other reads"
    if spec.repeat is RepeatPolicy.REDUNDANT:
        yield "an identical call of the same turn is not made again"
    if spec.previewed_argument:
        yield f"the room watches `{spec.previewed_argument}` while it is written"
    if spec.targets_argument:
        yield f"the room sees the files of `{spec.targets_argument}` before they are there"
    if spec.later:
        yield "runs in a worker, and the run waits for it"
    if spec.pauses is not None:
        yield f"may pause for up to {spec.pauses.most_s // 3600} hours"
    if spec.retry_safe:
        yield "may be tried again after a failure"
    if spec.outside_data:
        yield "returns text from outside, which is data and no instruction"
    if spec.reaches:
        yield f"reaches {', '.join(spec.reaches)}"
    if spec.uses_connection:
        yield "acts through a connection to another system"
    if spec.needs_approval_when_unattended:
        yield "asks every time in a run that no person started"
    if spec.aliases:
        yield f"also answers to {', '.join(f'`{alias}`' for alias in spec.aliases)}"
    for hint in spec.intent_hints:
        yield f"comes forward for: {hint}"


def _effects(spec: Specification) -> str:
    return ", ".join(map(_effect, spec.side_effects)) or "none"


def _effect(declared: DeclaredEffect) -> str:
    return f"{declared.kind} {declared.resource}" if declared.resource else declared.kind.value


def _row(cells: Iterable[str]) -> str:
    # A bar or a line end inside a cell would end it.
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"
