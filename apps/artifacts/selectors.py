"""What do readers ask of artifacts?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.artifacts.errors import ArtifactNotFound, NotText
from apps.artifacts.models import Artifact, ArtifactVersion, Draft
from apps.artifacts.naming import download_name, media_type_of
from apps.artifacts.services import as_uuid
from apps.core.api.downloads import StoredFile
from apps.core.blobs import get_blob

PAGE_LINES = 400


@dataclass(frozen=True, slots=True)
class Page:
    """Some numbered lines of one version."""

    version: ArtifactVersion
    lines: list[str]
    first_line: int
    total_lines: int


def artifacts_for(
    user: User, *, room_id: Any = None, in_person: bool = False
) -> QuerySet[Artifact]:
    """Return the artifacts that the member may read: all of them, or those of one room.

    What others shared with the member is among them only where the member reads in person.
    """
    rows: QuerySet[Artifact] = _readable(user, in_person).select_related("owner")
    return rows if room_id is None else rows.filter(room_id=room_id)


def _readable(user: User, in_person: bool) -> QuerySet[Any]:
    if in_person:
        return Artifact.objects.readable_by(user)
    return Artifact.objects.visible_to(user)


def versions_of(artifact: Artifact) -> QuerySet[ArtifactVersion]:
    """Return the versions of an artifact without their bodies."""
    return ArtifactVersion.objects.filter(artifact=artifact).select_related("author")


def visible_artifact(*, artifact_id: Any, user: User, in_person: bool = False) -> Artifact:
    """Return an artifact that the member may read, or refuse as if it did not exist."""
    artifact: Artifact | None = (
        _readable(user, in_person)
        .select_related("owner", "room")
        .filter(pk=as_uuid(artifact_id))
        .first()
    )
    if artifact is None:
        raise ArtifactNotFound("There is no such artifact that you may use.")
    return artifact


def artifact_to_change(*, artifact_id: Any, room_id: Any, user: User) -> Artifact:
    """Return a text of this room that the member may write on, or refuse as if there were none."""
    artifact: Artifact | None = (
        Artifact.objects.writable_by(user)
        .filter(pk=as_uuid(artifact_id), room_id=room_id)
        .exclude(kind=Artifact.Kind.FILE)
        .first()
    )
    if artifact is None:
        raise ArtifactNotFound("There is no such artifact that you may change in this room.")
    return artifact


def visible_version(
    *,
    artifact_id: Any,
    number: int | None,
    user: User,
    with_body: bool = True,
    in_person: bool = False,
) -> ArtifactVersion:
    """Return one version of an artifact that the member may read: the newest unless numbered."""
    artifact = visible_artifact(artifact_id=artifact_id, user=user, in_person=in_person)
    rows = artifact.versions.select_related("author", "artifact", *(["blob"] if with_body else []))
    version = rows.filter(number=artifact.head if number is None else number).first()
    if version is None:
        raise ArtifactNotFound("That artifact has no such version.", field="version")
    return version


def body_of(version: ArtifactVersion) -> str:
    """Return the text of a version; a file has none."""
    if version.artifact.kind == Artifact.Kind.FILE:
        raise NotText(
            f"{version.title} is a native file ({version.media_type}, {version.size:,} bytes)."
            " It is not read as text; a program of run_code finds it among its shared files."
        )
    return content_of(version).decode("utf-8")


def content_of(version: ArtifactVersion) -> bytes:
    """Return the exact bytes of a version."""
    return bytes(version.blob.content)


def stored_file(
    *, artifact_id: Any, number: int, user: User, in_person: bool = False
) -> StoredFile:
    """Return one version that the member may read as a file to hand out, without its bytes."""
    version = visible_version(
        artifact_id=artifact_id, number=number, user=user, with_body=False, in_person=in_person
    )
    return StoredFile(version.blob_id, version.size, download_name(version), media_type_of(version))


def preview_of(version: ArtifactVersion) -> dict[str, Any] | None:
    """Return what was derived from a file when it was saved, for looking at it."""
    if version.preview_id is None:
        return None
    drawn: dict[str, Any] = json.loads(get_blob(version.preview_id))
    return drawn


def read_page(*, artifact_id: Any, user: User, first_line: int = 1) -> Page:
    """Return at most 400 lines of the newest version, counted from 1."""
    version = visible_version(artifact_id=artifact_id, number=None, user=user)
    lines = body_of(version).split("\n")
    return Page(
        version=version,
        lines=lines[first_line - 1 : first_line - 1 + PAGE_LINES],
        first_line=first_line,
        total_lines=len(lines),
    )


def open_draft(*, draft_id: Any, user: User) -> Draft | None:
    """Return a draft of the member's own that is neither finished nor discarded."""
    try:
        ident = as_uuid(draft_id)
    except ArtifactNotFound:
        return None
    found: Draft | None = Draft.objects.visible_to(user).open().filter(pk=ident).first()
    return found


def draft_of_run(run_id: Any) -> Draft | None:
    """Return the draft that a run is writing, if it is."""
    found: Draft | None = Draft.objects.open().filter(run_id=run_id).first()
    return found


def interrupted_drafts(*, user: User, room_id: Any) -> QuerySet[Draft]:
    """Return the member's drafts of a room that no run writes any more, newest first."""
    return Draft.objects.visible_to(user).interrupted().filter(room_id=room_id)


def held_blobs() -> Iterable[str]:
    """Name the digests that versions still point at."""
    yield from ArtifactVersion.objects.values_list("blob_id", flat=True)
    yield from ArtifactVersion.objects.exclude(preview=None).values_list("preview_id", flat=True)
