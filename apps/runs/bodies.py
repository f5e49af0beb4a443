"""Where do large arguments and results lie? In the row up to 8 KiB, in a blob above."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.core.blobs import INLINE_LIMIT, get_blob, get_blobs, put_blob
from apps.runs.models import Call, JournalEntry


def pack(value: Any) -> tuple[Any, str]:
    """Return `(inline value, "")` for a small JSON value and `(None, digest)` for a large one."""
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    if len(raw) <= INLINE_LIMIT:
        return value, ""
    return None, put_blob(raw)


def unpack(inline: Any, digest: str) -> Any:
    """Return what `pack` put away."""
    return json.loads(get_blob(digest)) if digest else inline


def arguments_of(call: Call) -> dict[str, Any]:
    """Return a call's exact arguments."""
    value: dict[str, Any] = unpack(call.arguments, call.arguments_blob)
    return value


def projection_of(call: Call) -> dict[str, Any] | None:
    """Return what a call handed back to the model, once it has settled."""
    value: dict[str, Any] | None = unpack(call.projection, call.projection_blob)
    return value


def journal_bodies(entries: Iterable[JournalEntry]) -> list[Any]:
    """Return the bodies of many journal entries with one query for all large ones."""
    rows = list(entries)
    large = get_blobs(row.blob_digest for row in rows if row.blob_digest)
    return [json.loads(large[row.blob_digest]) if row.blob_digest else row.body for row in rows]


@dataclass(frozen=True, slots=True)
class CallBodies:
    """What a call carried to its tool, and what went back to the model."""

    arguments: dict[str, Any]
    projection: dict[str, Any]


def proposed_arguments(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments as they were proposed: without what the deployment set."""
    if not call.pinned:
        return arguments
    return {name: value for name, value in arguments.items() if name not in call.pinned}


def call_bodies(calls: Iterable[Call], *, arguments: bool = True) -> dict[Any, CallBodies]:
    """Return the bodies of many calls by id, with one query for all large ones.

    They are read to a model, so of the arguments only what was proposed is among them.
    """
    rows = list(calls)
    digests = [row.projection_blob for row in rows]
    digests += [row.arguments_blob for row in rows] if arguments else []
    large = get_blobs(digest for digest in digests if digest)

    def body(inline: Any, digest: str) -> dict[str, Any]:
        return (json.loads(large[digest]) if digest else inline) or {}

    return {
        row.pk: CallBodies(
            proposed_arguments(row, body(row.arguments, row.arguments_blob)) if arguments else {},
            body(row.projection, row.projection_blob),
        )
        for row in rows
    }


def held_blobs() -> list[str]:
    """Name the digests that calls and journals still point at."""
    return [
        *Call.objects.exclude(arguments_blob="").values_list("arguments_blob", flat=True),
        *Call.objects.exclude(projection_blob="").values_list("projection_blob", flat=True),
        *JournalEntry.objects.exclude(blob_digest="").values_list("blob_digest", flat=True),
        *(
            one["digest"]
            for images in Call.objects.exclude(images=[]).values_list("images", flat=True)
            for one in images
        ),
    ]
