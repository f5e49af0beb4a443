"""How does an agent write something long in pieces? Four tools that are one protocol."""

from __future__ import annotations

from typing import Any

from apps.artifacts import drafts
from apps.artifacts.drafts import MAX_PIECE, Cursor
from apps.artifacts.errors import DraftTaken, StaleCursor
from apps.core.errors import Invalid, NotFound
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    Reason,
    ToolFailure,
    ToolOk,
    specify,
)
from apps.tools.builtin.artifacts import (
    ID,
    KIND,
    LANGUAGE,
    TITLE,
    provenance_of,
    saved,
    writer_of,
)
from apps.tools.contract import CallContext, Tool


def begin_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Open a draft that only the member sees."""
    try:
        cursor = drafts.begin_draft(
            writer=writer_of(context),
            title=arguments["title"],
            kind=arguments["kind"],
            language=arguments.get("language", ""),
        )
    except DraftTaken as refusal:
        return ToolFailure(Reason.CONFLICT, str(refusal))
    except Invalid as refusal:
        return ToolFailure(Reason.INVALID_ARGUMENTS, f"{refusal} Nothing was saved.")
    return _stands(cursor)


def append_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Add the next piece to a draft."""
    try:
        cursor = drafts.append_draft(
            writer=writer_of(context),
            draft_id=arguments["draft_id"],
            sequence=int(arguments["sequence"]),
            digest=arguments["digest"],
            text=arguments["text"],
        )
    except (NotFound, DraftTaken, StaleCursor, Invalid) as refusal:
        return _refused(refusal)
    return _stands(cursor)


def finalize_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Make the artifact of a draft."""
    try:
        version = drafts.finish_draft(
            writer=writer_of(context),
            draft_id=arguments["draft_id"],
            sequence=int(arguments["sequence"]),
            digest=arguments["digest"],
            provenance=provenance_of(context),
        )
    except (NotFound, DraftTaken, StaleCursor, Invalid) as refusal:
        return _refused(refusal)
    return saved(version)


def discard_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Throw a draft away."""
    try:
        draft = drafts.discard_draft(writer=writer_of(context), draft_id=arguments["draft_id"])
    except (NotFound, DraftTaken) as refusal:
        return _refused(refusal)
    return ToolOk({"draft_id": str(draft.pk), "discarded": True})


def _stands(cursor: Cursor) -> ToolOk:
    return ToolOk(
        {
            "draft_id": str(cursor.draft.pk),
            "title": cursor.draft.title,
            "sequence": cursor.sequence,
            "digest": cursor.digest,
            "characters": cursor.draft.characters,
        }
    )


def _refused(refusal: Exception) -> ToolFailure:
    match refusal:
        case NotFound():
            return ToolFailure(Reason.NOT_FOUND, str(refusal))
        case StaleCursor():
            return ToolFailure(Reason.STALE_VERSION, str(refusal))
        case DraftTaken():
            return ToolFailure(Reason.CONFLICT, str(refusal))
    return ToolFailure(Reason.INVALID_ARGUMENTS, str(refusal))


_CURSOR = {
    "draft_id": ID,
    "sequence": {
        "type": "integer",
        "minimum": 0,
        "description": "How many pieces the draft has, as the last result said.",
    },
    "digest": {
        "type": "string",
        "minLength": 64,
        "maxLength": 64,
        "description": "The digest of the last result.",
    },
}
# A piece's JSON text can be several times its characters.
_PIECE_CAP = 256 * 1024

TOOLS = (
    Tool(
        specify(
            name="begin_artifact",
            title="Begin an artifact",
            description=(
                "Open a draft for something long that you write in pieces: then append_artifact"
                " piece by piece, and at last finalize_artifact or discard_artifact. Only the"
                " member sees the draft. Every result says where it stands; give exactly that with"
                " the next call."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "title": TITLE,
                    "kind": KIND,
                    "language": LANGUAGE,
                },
                "required": ["title", "kind"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.ARTIFACTS_WRITE,
            side_effects=(DeclaredEffect(EffectKind.WRITES, "drafts"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            retry_safe=True,
        ),
        begin_artifact,
    ),
    Tool(
        specify(
            name="append_artifact",
            title="Append to an artifact",
            description=(
                "Add the next piece to a draft, exactly after what the last result says it holds."
                f" A piece has at most {MAX_PIECE:,} characters. The very same call again changes"
                " nothing."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    **_CURSOR,
                    "text": {"type": "string", "minLength": 1, "maxLength": MAX_PIECE},
                },
                "required": [*_CURSOR, "text"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.ARTIFACTS_WRITE,
            side_effects=(DeclaredEffect(EffectKind.WRITES, "drafts"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            argument_cap=_PIECE_CAP,
            retry_safe=True,
        ),
        append_artifact,
    ),
    Tool(
        specify(
            name="finalize_artifact",
            title="Finalize an artifact",
            description=(
                "Make the artifact of a draft that is complete. From then on everyone in the room"
                " sees it."
            ),
            input_schema={
                "type": "object",
                "properties": _CURSOR,
                "required": list(_CURSOR),
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.ARTIFACTS_WRITE,
            side_effects=(DeclaredEffect(EffectKind.WRITES, "artifacts"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            retry_safe=True,
        ),
        finalize_artifact,
    ),
    Tool(
        specify(
            name="discard_artifact",
            title="Discard a draft",
            description="Throw a draft away, with all that was written of it.",
            input_schema={
                "type": "object",
                "properties": {"draft_id": ID},
                "required": ["draft_id"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.ARTIFACTS_WRITE,
            side_effects=(DeclaredEffect(EffectKind.DELETES, "drafts"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            retry_safe=True,
        ),
        discard_artifact,
    ),
)
