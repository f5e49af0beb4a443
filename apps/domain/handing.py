"""How does the code of a package ask that its call wait, and who carries the link to whom it asks?

Code of a package is never given a link that answers for a call. It says what should be asked, with
a placeholder where the link belongs; a declared request of the same package, which its manifest
names, carries it. Where that goes is fixed text that somebody reviewed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apps.domain.entries import (
    CommandEntry,
    Entry,
    HttpEntry,
    NodeEntry,
    PiEntry,
    Protocol,
    PythonEntry,
)
from apps.domain.packagetools import PackageTool
from apps.domain.problems import Problems
from apps.domain.tooling import MAX_PAUSE_S, Effect
from apps.domain.words import shown

WAIT_LINK: Final = "{wait_link}"
"""What stands for the link in what the code of a package says."""
FIELD: Final = "hands_link_to"
FIELD_SCHEMA: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 128}

_PAUSE: Final = "pause"
_RANK: Final = {Effect.READ: 0, Effect.WRITE: 1, Effect.SENSITIVE: 2}


class BadPause(ValueError):
    """An answer that asks to wait and cannot be heard; the sentence quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class AskedPause:
    """What the code of a package wants to be asked, and how long it would wait for the answer."""

    given: dict[str, Any]
    """The input of the request that carries the link, with the placeholder in it."""
    seconds: int | None

    def with_link(self, link: str) -> dict[str, Any]:
        """Return the input with the link where the placeholder stands."""
        filled: dict[str, Any] = _filled(self.given, link)
        return filled


def asked_pause(entry: Entry, value: Any) -> AskedPause | None:
    """Return what a tool's answer asks for, if it asks to wait, or raise `BadPause`."""
    said = _said(entry, value)
    if not isinstance(said, dict) or set(said) != {_PAUSE}:
        return None
    asked = said[_PAUSE]
    if not isinstance(asked, dict) or not {"input"} <= set(asked) <= {"input", "seconds"}:
        raise BadPause("pause has the field input, perhaps seconds, and no other.")
    given, seconds = asked["input"], asked.get("seconds")
    if not isinstance(given, dict):
        raise BadPause("pause.input is not an object.")
    if seconds is not None and (type(seconds) is not int or not 1 <= seconds <= MAX_PAUSE_S):
        raise BadPause(f"pause.seconds is not a whole number from 1 to {MAX_PAUSE_S:,}.")
    if _filled(given, "") == given:
        raise BadPause(f"pause.input does not say where {WAIT_LINK} goes.")
    return AskedPause(given, seconds)


def _said(entry: Entry, value: Any) -> Any:
    """Return the value of an answer: functions return one, other code wraps it into blocks."""
    if not isinstance(value, dict):
        return None
    if isinstance(entry, PiEntry):
        return value.get("structuredContent")
    if isinstance(entry, CommandEntry):
        blocks = value.get("content")
        lone = blocks[0] if isinstance(blocks, list) and len(blocks) == 1 else None
        return lone.get("data") if isinstance(lone, dict) and lone.get("type") == "json" else None
    return value


def _filled(value: Any, link: str) -> Any:
    if isinstance(value, str):
        return value.replace(WAIT_LINK, link)
    if isinstance(value, list):
        return [_filled(one, link) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, link) for key, one in value.items()}
    return value


def with_couriers(
    tools: Sequence[PackageTool], items: Sequence[Mapping[str, Any]], problems: Problems
) -> tuple[PackageTool, ...]:
    """Give each tool that pauses the request that carries its link, and note where none can."""
    return tuple(
        _with_courier(tool, item, tools, f"tools[{index}]", problems)
        for index, (tool, item) in enumerate(zip(tools, items, strict=True))
    )


def _with_courier(
    tool: PackageTool,
    item: Mapping[str, Any],
    tools: Sequence[PackageTool],
    where: str,
    problems: Problems,
) -> PackageTool:
    named, pauses = item.get(FIELD), tool.definition.get("pauses") is True
    place = f"{where}.{FIELD}"
    if not pauses:
        if named is not None:
            said = "Only a tool whose definition says that it pauses hands a link on."
            problems.add(place, "incoherent", said)
        return tool
    if not _has_handler(tool.entry):
        said = "Only a function, a tool of Pi, or a program that answers in JSON pauses."
        problems.add(f"{where}.definition.pauses", "incoherent", said)
        return tool
    if named is None:
        said = "A tool that pauses names the declared request of its package that carries its link."
        problems.add(place, "required", said)
        return tool
    courier = next((one for one in tools if one.id == named), None)
    if courier is None or not isinstance(courier.entry, HttpEntry):
        said = f"The package has no declared request {shown(named)}."
        problems.add(place, "unknown", said)
        return tool
    if courier.uses_connection:
        said = "A link is not handed on through somebody's connection."
        problems.add(place, "unsupported", said)
        return tool
    if _effect(courier) > _effect(tool):
        said = "The request that carries the link does graver things than the tool says of itself."
        problems.add(place, "incoherent", said)
        return tool
    return replace(tool, courier=courier)


def _has_handler(entry: Entry) -> bool:
    if isinstance(entry, CommandEntry):
        return entry.protocol is Protocol.JSON
    return isinstance(entry, PythonEntry | NodeEntry | PiEntry)


def _effect(tool: PackageTool) -> int:
    return _RANK[tool.specification().effect]
