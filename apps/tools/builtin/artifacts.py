"""How does an agent make, change and read artifacts?"""

from __future__ import annotations

from typing import Any

from apps.artifacts import drafts, selectors, services
from apps.artifacts.errors import DraftTaken, StaleVersion
from apps.artifacts.models import WRITABLE_KINDS, ArtifactVersion, Draft
from apps.artifacts.services import MAX_BODY, Provenance
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
    RepeatPolicy,
    ToolFailure,
    ToolOk,
    specify,
)
from apps.tools.contract import CallContext, Tool

# A body's JSON text can be several times its characters: escapes and multi-byte letters.
_BODY_CAP = 1024 * 1024


def create_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Save a new artifact in the room of the run, owned by its member."""
    try:
        version = services.create_artifact(
            owner=context.member,
            room_id=context.room_id,
            title=arguments["title"],
            kind=arguments["kind"],
            language=arguments.get("language", ""),
            body=arguments["body"],
            provenance=provenance_of(context),
        )
    except Invalid as refusal:
        return ToolFailure(Reason.INVALID_ARGUMENTS, f"{refusal} Nothing was saved.")
    return saved(version)


def update_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Save the next version of an artifact of this room that the member owns."""
    try:
        if arguments["expected_version"] == 0:
            version = drafts.complete_draft(
                writer=writer_of(context),
                draft_id=arguments["artifact_id"],
                body=arguments["body"],
                title=arguments.get("title"),
                provenance=provenance_of(context),
            )
        else:
            version = services.update_artifact(
                member=context.member,
                room_id=context.room_id,
                artifact_id=arguments["artifact_id"],
                expected_version=arguments["expected_version"],
                body=arguments["body"],
                title=arguments.get("title"),
                provenance=provenance_of(context),
            )
    except DraftTaken as refusal:
        return ToolFailure(Reason.CONFLICT, str(refusal))
    except NotFound as refusal:
        return ToolFailure(Reason.NOT_FOUND, str(refusal))
    except StaleVersion as refusal:
        return ToolFailure(Reason.STALE_VERSION, f"{refusal} Nothing was saved.", retryable=True)
    except Invalid as refusal:
        return ToolFailure(Reason.INVALID_ARGUMENTS, f"{refusal} Nothing was saved.")
    return saved(version)


def read_artifact(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Return numbered lines of the newest version, or of a draft of the member's own."""
    try:
        page = selectors.read_page(
            artifact_id=arguments["artifact_id"],
            user=context.member,
            # JSON has one kind of number: 2.0 is a whole one.
            first_line=int(arguments.get("first_line", 1)),
        )
    except NotFound as refusal:
        draft = selectors.open_draft(draft_id=arguments["artifact_id"], user=context.member)
        if draft is not None:
            return _draft_page(draft, int(arguments.get("first_line", 1)))
        return ToolFailure(Reason.NOT_FOUND, str(refusal))
    except Invalid as refusal:
        return ToolFailure(Reason.INVALID_ARGUMENTS, str(refusal))
    artifact = page.version.artifact
    return ToolOk(
        {
            "artifact_id": str(artifact.pk),
            "title": page.version.title,
            "kind": artifact.kind,
            "version": page.version.number,
            "digest": page.version.blob_id,
            "total_lines": page.total_lines,
            "lines": [
                f"{number}: {line}" for number, line in enumerate(page.lines, page.first_line)
            ],
        },
        provenance=_read_from(artifact.pk, page.version.number, page.version.blob_id),
    )


def _draft_page(draft: Draft, first_line: int) -> ToolOk:
    lines = drafts.text_of(draft).split("\n")
    shown = lines[first_line - 1 : first_line - 1 + selectors.PAGE_LINES]
    return ToolOk(
        {
            "artifact_id": str(draft.pk),
            "title": draft.title,
            "kind": draft.kind,
            "version": 0,
            "unfinished": True,
            "sequence": draft.sequence,
            "digest": draft.digest,
            "total_lines": len(lines),
            "lines": [f"{number}: {line}" for number, line in enumerate(shown, first_line)],
        },
        provenance=_read_from(draft.pk, 0, draft.digest),
    )


def _read_from(artifact: Any, version: int, digest: str) -> dict[str, Any]:
    """Say what was read, so that the trail tells what an answer stood on."""
    return {"read": {"artifact": str(artifact), "version": version, "digest": digest}}


def writer_of(context: CallContext) -> drafts.Writer:
    """Return for whom and under which hold a draft is written."""
    if context.hold is None:
        raise LookupError("Only what is called for a run may write a draft.")
    return drafts.Writer(context.member, context.room_id, context.hold)


def provenance_of(context: CallContext) -> Provenance:
    """Return what a version says of its origin."""
    return Provenance(
        run_id=context.run_id,
        call_id=context.call_id,
        agent_name=context.agent.name,
        agent_slug=context.agent.slug,
    )


def saved(version: ArtifactVersion) -> ToolOk:
    """Tell of a version that was saved."""
    return ToolOk(
        {
            "artifact_id": str(version.artifact_id),
            "version": version.number,
            "title": version.title,
            "characters": version.characters,
            "digest": version.blob_id,
        },
        artifacts=(f"{version.artifact_id}:{version.number}",),
    )


ID = {"type": "string", "minLength": 36, "maxLength": 36}
TITLE = {"type": "string", "minLength": 1, "maxLength": 200}
KIND = {"type": "string", "enum": list(WRITABLE_KINDS)}
LANGUAGE = {
    "type": "string",
    "maxLength": 40,
    "description": "For code: the programming language.",
}
_BODY = {"type": "string", "maxLength": MAX_BODY, "description": "The whole text."}

TOOLS = (
    Tool(
        specify(
            name="create_artifact",
            title="Create an artifact",
            description=(
                "Save something you made as a new versioned artifact that everyone in the room"
                " sees: a document, a page, a picture as SVG, or code. Give the whole body."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "title": TITLE,
                    "kind": KIND,
                    "language": LANGUAGE,
                    "body": _BODY,
                },
                "required": ["title", "kind", "body"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.ARTIFACTS_WRITE,
            side_effects=(DeclaredEffect(EffectKind.WRITES, "artifacts"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            previewed_argument="body",
            argument_cap=_BODY_CAP,
            repeat=RepeatPolicy.REDUNDANT,
        ),
        create_artifact,
    ),
    Tool(
        specify(
            name="update_artifact",
            title="Update an artifact",
            description=(
                "Save a new version of an artifact of this room. Say which version you read; if it"
                " has moved on since, nothing is saved and you should read it again. Give the whole"
                " new body."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "artifact_id": ID,
                    "expected_version": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "0 completes an unfinished draft.",
                    },
                    "title": TITLE,
                    "body": _BODY,
                },
                "required": ["artifact_id", "expected_version", "body"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.ARTIFACTS_WRITE,
            side_effects=(DeclaredEffect(EffectKind.WRITES, "artifacts"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            argument_cap=_BODY_CAP,
            repeat=RepeatPolicy.REDUNDANT,
        ),
        update_artifact,
    ),
    Tool(
        specify(
            name="read_artifact",
            title="Read an artifact",
            description=(
                "Read the newest version of an artifact as numbered lines, at most 400 at a time."
                " Continue with first_line where there are more."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "artifact_id": ID,
                    "first_line": {"type": "integer", "minimum": 1},
                },
                "required": ["artifact_id"],
                "additionalProperties": False,
            },
            effect=Effect.READ,
            capability=Capability.ARTIFACTS_READ,
            side_effects=(DeclaredEffect(EffectKind.READS, "artifacts"),),
            parallel_safe=True,
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.ACTOR_BOUND_READ,
        ),
        read_artifact,
    ),
)
