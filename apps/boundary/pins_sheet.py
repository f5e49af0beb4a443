"""What does the form show that pins arguments of one tool?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.core.errors import Refusal
from apps.domain.canonical import BadJson, strict_loads
from apps.domain.pinning import MAX_PINNED_BYTES, why_not_pinned
from apps.domain.policy import Path
from apps.domain.tooling import Specification
from apps.grants.errors import BadPinnedValue
from apps.grants.models import PinnedArguments, PolicyState


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the tool, with what is typed for it."""

    name: str
    kind: str
    about: str
    required: bool
    text: str
    wrong: str
    barred: str
    """Why no value can be pinned to it; it has no input then."""

    @property
    def field(self) -> str:
        """The name of its input."""
        return f"arg:{self.name}"


@dataclass(frozen=True, slots=True)
class PinsForm:
    """The form of one tool."""

    path: Path
    spec: Specification
    revision: int
    arguments: list[Argument]
    note: str
    wrong: str


def pins_form(
    path: Path,
    spec: Specification,
    *,
    texts: Mapping[str, str] | None,
    refusal: Refusal | None,
) -> PinsForm:
    """Return the form with what is pinned now, or what was typed and what is wrong with it."""
    family, surface, endpoint = path
    row = PinnedArguments.objects.filter(family=family, surface=surface, endpoint=endpoint).first()
    held = row.values if row is not None and isinstance(row.values, dict) else {}
    shown = texts if texts is not None else {name: _text(held[name]) for name in held}
    schema = spec.input_schema
    wrong = refusal.field or "" if refusal is not None else ""
    message = refusal.message if refusal is not None else ""
    arguments = [
        _argument(name, declared, spec, shown, message if wrong == f"values.{name}" else "")
        for name, declared in schema.get("properties", {}).items()
    ]
    return PinsForm(
        path=path,
        spec=spec,
        revision=PolicyState.objects.values_list("revision", flat=True).first() or 0,
        arguments=arguments,
        note=row.note if row is not None else "",
        wrong="" if any(argument.wrong for argument in arguments) else message,
    )


def values_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that were typed as JSON; an empty field leaves its argument alone."""
    values = {}
    for name, text in texts.items():
        if not text.strip():
            continue
        try:
            values[name] = strict_loads(text, max_bytes=MAX_PINNED_BYTES, nul=False)
        except BadJson as bad:
            raise BadPinnedValue(bad.message, field=f"values.{name}"[:60]) from None
    return values


def _argument(
    name: str, declared: Any, spec: Specification, shown: Mapping[str, str], wrong: str
) -> Argument:
    known = declared if isinstance(declared, dict) else {}
    kind = known.get("type", "")
    return Argument(
        name=name,
        kind=" or ".join(kind) if isinstance(kind, list) else str(kind or "any value"),
        about=_about(known),
        required=name in spec.input_schema.get("required", ()),
        text=shown.get(name, ""),
        wrong=wrong,
        barred=why_not_pinned(spec, name),
    )


def _about(declared: Mapping[str, Any]) -> str:
    words = str(declared.get("description", ""))
    choices = declared.get("enum")
    if isinstance(choices, list):
        words = f"{words} One of {', '.join(_text(choice) for choice in choices[:20])}.".strip()
    return words[:300]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
