"""What are the files that a program left, and what may be seen of them?

Nothing of them is parsed here. A second sandbox, with nothing in it but these files and our own
program, looks at them; what it says is read strictly, and whatever it does not vouch for is unfit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apps.core.correlation import current_correlation_id
from apps.domain.wire import JsonValue
from apps.sandbox.client import run
from apps.sandbox.replies import BadReply, read_frame
from apps.sandbox.spec import Limits, Reason, SandboxSpec, WorkFile

MAX_PREVIEW: Final = 400_000
"""Bytes of what may be looked at in one file."""
DEADLINE_S: Final = 20.0

_PROGRAM: Final = Path(__file__).parents[1] / "inspection"
_START: Final = (
    "import runpy, sys; sys.path.insert(0, '/kaizen');"
    " runpy.run_module('inspection', run_name='__main__')"
)
_LIMITS: Final = Limits(cpu_ms=15_000, memory_mb=512, processes=4, workspace_mb=64)
_MEDIA: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.+-/")


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one file: its media type and what to look at, or why it is unfit."""

    name: str
    media_type: str = ""
    preview: dict[str, Any] | None = None
    unfit: str = ""


def inspect(
    files: Sequence[tuple[str, bytes]],
    *,
    deadline_s: float = DEADLINE_S,
    cancelled: Callable[[], bool] | None = None,
    path: Path | None = None,
) -> list[Found]:
    """Look at files under their names, in their order. Raises SandboxUnavailable."""
    if not files:
        return []
    spec = SandboxSpec(
        argv=("python", "-I", "-S", "-B", "-c", _START),
        harness=_program(),
        stdin=json.dumps([name for name, _ in files]).encode(),
        workspace=tuple(WorkFile(str(place), content) for place, (_, content) in enumerate(files)),
        limits=_LIMITS,
        correlation_id=current_correlation_id(),
    )
    result = run(spec, deadline_s=deadline_s, cancelled=cancelled, path=path)
    if result.reason is not Reason.OK:
        said = "It could not be checked within the time and memory that a check has."
        return [Found(name, unfit=said) for name, _ in files]
    try:
        return _read(result.result, [name for name, _ in files])
    except BadReply as problem:
        return [Found(name, unfit=f"It could not be checked: {problem}") for name, _ in files]


def _program() -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (f"inspection/{file.name}", file.read_bytes()) for file in sorted(_PROGRAM.glob("*.py"))
    )


def _read(data: bytes, names: Sequence[str]) -> list[Found]:
    said = read_frame(data).get("files")
    if not isinstance(said, list) or len(said) != len(names):
        raise BadReply("not every file was looked at.")
    return [_one(name, claim) for name, claim in zip(names, said, strict=True)]


def _one(name: str, claim: JsonValue) -> Found:
    if not isinstance(claim, Mapping):
        raise BadReply("a finding is no object.")
    unfit, media, preview = claim.get("unfit"), claim.get("media"), claim.get("preview")
    if isinstance(unfit, str) and unfit:
        return Found(name, unfit=unfit[:300])
    if not isinstance(media, str) or not 3 <= len(media) <= 100 or not set(media) <= _MEDIA:
        raise BadReply("a finding has no media type.")
    return Found(name, media, _drawn(preview))


def _drawn(claim: JsonValue) -> dict[str, Any]:
    """Rebuild what there is to look at from exactly the members that a page shows."""
    if not isinstance(claim, Mapping):
        raise BadReply("a finding has nothing to look at.")
    parts = [_part(part) for part in _list(claim.get("parts"))]
    drawn = {"summary": _text(claim.get("summary")), "parts": parts, "cut": bool(claim.get("cut"))}
    if len(json.dumps(drawn, ensure_ascii=False).encode("utf-8", "replace")) > MAX_PREVIEW:
        raise BadReply("there is too much to look at.")
    return drawn


def _part(claim: JsonValue) -> dict[str, Any]:
    if not isinstance(claim, Mapping):
        raise BadReply("a part of a preview is no object.")
    blocks = [_block(one) for one in _list(claim.get("blocks"))]
    return {"title": _text(claim.get("title")), "blocks": blocks}


def _block(claim: JsonValue) -> dict[str, Any]:
    match claim:
        case {"kind": "text" | "heading" | "source" as kind, "text": str(text)}:
            return {"kind": kind, "text": _text(text)}
        case {"kind": "list", "lines": list(lines)}:
            return {"kind": "list", "lines": [_text(line) for line in lines]}
        case {"kind": "table", "rows": list(rows)}:
            return {"kind": "table", "rows": [[_text(cell) for cell in _list(row)] for row in rows]}
    raise BadReply("a block of a preview is of no known kind.")


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise BadReply("a preview holds something that is no list.")
    return value


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise BadReply("a preview holds something that is no text.")
    return value
