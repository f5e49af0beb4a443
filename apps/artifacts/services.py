"""How is an artifact made and changed? One complete, immutable version at a time."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.artifacts.errors import ArtifactNotFound, BadArtifact, NotText, StaleVersion
from apps.artifacts.models import WRITABLE_KINDS, Artifact, ArtifactVersion
from apps.audit.services import record
from apps.core.blobs import put_blob
from apps.rooms.services import publish_event

MAX_BODY = 100_000
"""Characters (code points) in one body."""

_OFFICE = (".docx", ".pptx", ".xlsx")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which call of which run wrote a version, and for which agent. Unique by call."""

    run_id: uuid.UUID
    call_id: uuid.UUID
    agent_name: str
    agent_slug: str


@transaction.atomic
def create_artifact(
    *,
    owner: User,
    room_id: Any,
    title: str,
    kind: str,
    language: str,
    body: str,
    provenance: Provenance,
    artifact_id: uuid.UUID | None = None,
) -> ArtifactVersion:
    """Make an artifact with its first version, all at once; a draft's keeps the draft's id."""
    title = checked_title(title)
    check_kind(kind, language)
    check_body(body)
    artifact = Artifact.objects.create(
        pk=artifact_id or uuid.uuid4(),
        owner=owner,
        room_id=room_id,
        title=title,
        kind=kind,
        language=language,
    )
    return _add_version(artifact, author=owner, title=title, body=body, provenance=provenance)


@transaction.atomic
def update_artifact(
    *,
    member: User,
    room_id: Any,
    artifact_id: Any,
    expected_version: int,
    body: str,
    title: str | None,
    provenance: Provenance,
) -> ArtifactVersion:
    """Add a version on top of exactly the one that the writer saw, in the artifact's own room.

    Its room is told, so nobody writes into one that is closed or that they have left by working
    in another.
    """
    artifact = (
        Artifact.objects.writable_by(member)
        .select_for_update(no_key=True, of=("self",))
        .filter(pk=as_uuid(artifact_id), room_id=room_id)
        .first()
    )
    if artifact is None:
        raise ArtifactNotFound("There is no such artifact that you may change in this room.")
    return add_text(
        artifact,
        author=member,
        expected_version=expected_version,
        body=body,
        title=title,
        provenance=provenance,
    )


def add_text(
    artifact: Artifact,
    *,
    author: User,
    expected_version: int,
    body: str,
    title: str | None,
    provenance: Provenance | None,
) -> ArtifactVersion:
    """Add a version of text to an artifact that is locked, on top of the one that was read."""
    if artifact.kind == Artifact.Kind.FILE:
        raise NotText(
            f"{artifact.file_name} is a native file, which is not written as text."
            " A program that writes the same name again (run_code) makes its next version."
        )
    if artifact.head != expected_version:
        raise StaleVersion(
            f"The artifact is at version {artifact.head}, not {expected_version}."
            " Read it again, then apply the change to what it now says.",
            field="expected_version",
        )
    title = artifact.title if title is None else checked_title(title)
    check_body(body)
    return _add_version(artifact, author=author, title=title, body=body, provenance=provenance)


def as_uuid(value: Any) -> uuid.UUID:
    """Read an id that came from outside; one that is no id names nothing."""
    try:
        return uuid.UUID(str(value))
    except ValueError:
        raise ArtifactNotFound("There is no such artifact that you may use.") from None


def _add_version(
    artifact: Artifact, *, author: User, title: str, body: str, provenance: Provenance | None
) -> ArtifactVersion:
    raw = body.encode("utf-8")
    artifact.title = title
    return append_version(
        artifact,
        author=author,
        provenance=provenance,
        content=raw,
        characters=len(body),
    )


def append_version(
    artifact: Artifact,
    *,
    author: User,
    provenance: Provenance | None,
    content: bytes,
    characters: int = 0,
    **about: Any,
) -> ArtifactVersion:
    """Add a version to an artifact that is locked or new, and tell the room of it.

    Without provenance a person wrote it in person.
    """
    call = str(provenance.call_id) if provenance else ""
    artifact.head += 1
    artifact.save(update_fields=["head", "title", "updated_at"])
    version = ArtifactVersion.objects.create(
        artifact=artifact,
        number=artifact.head,
        title=artifact.title,
        blob_id=put_blob(content),
        size=len(content),
        characters=characters,
        author=author,
        agent_name=provenance.agent_name if provenance else "",
        run_id=provenance.run_id if provenance else None,
        call_id=provenance.call_id if provenance else None,
        **about,
    )
    record(
        actor=author,
        action="artifact.created" if artifact.head == 1 else "artifact.updated",
        subject=artifact,
        digest=version.blob_id,
        detail={"version": version.number, "call": call},
    )
    publish_event(
        room_id=artifact.room_id,
        kind="artifact.saved",
        actor=f"agent:{provenance.agent_slug}" if provenance else author,
        data={
            "artifact": str(artifact.pk),
            "version": version.number,
            "title": artifact.title,
            "kind": artifact.kind,
            "language": artifact.language,
            "size": version.size,
            "media_type": version.media_type,
            "call": call,
            "target": version.target,
            "by": {
                "agent": provenance.agent_name if provenance else "",
                "member": {"id": author.pk, "username": author.username, "name": author.name},
            },
        },
    )
    return version


def check_kind(kind: str, language: str) -> None:
    """Refuse a kind or a language that no artifact has."""
    if kind not in WRITABLE_KINDS:
        known = ", ".join(WRITABLE_KINDS)
        raise BadArtifact(f"An artifact's kind is one of {known}.", field="kind")
    if len(language) > 40 or not language.isprintable():
        raise BadArtifact("A language has at most 40 printable characters.", field="language")


def checked_title(title: str) -> str:
    """Return a title as it is stored, or refuse it."""
    clean = " ".join(title.split())
    if not clean or len(clean) > 200 or not clean.isprintable():
        raise BadArtifact("A title has 1 to 200 printable characters.", field="title")
    if clean.lower().endswith(_OFFICE):
        raise BadArtifact(
            "Word, PowerPoint and Excel files cannot be written as text. Make such a file with"
            " run_code, named in artifact_targets, where you have that tool; else choose markdown"
            " or html and a title without that ending.",
            field="title",
        )
    return clean


def check_body(body: str) -> None:
    """Refuse a body that is too long or cannot be stored."""
    if len(body) > MAX_BODY:
        raise BadArtifact(
            f"A body has at most {MAX_BODY:,} characters; this one has {len(body):,}.",
            field="body",
        )
    if "\x00" in body:
        raise BadArtifact("A body cannot hold the NUL character.", field="body")
