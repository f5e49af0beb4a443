"""How is a file kept that a program made? As opaque bytes under its name, version by version.

One member's file of one name in one room is one artifact. A file whose bytes and type are those of
its newest version is that version; the look and the insert happen under the artifact's row lock, so
two calls that make the same file at once come one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.artifacts.errors import BadArtifact
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.services import Provenance, append_version
from apps.audit.services import record
from apps.core.blobs import digest_of, put_blob, stored_together
from apps.domain.paths import BadPath, check_name

MAX_FILE_NAME = 200
"""Characters of a file's name, its folders included."""


@dataclass(frozen=True, slots=True)
class NativeFile:
    """A file whose structure was found to be what its name says, and what there is to look at."""

    name: str
    content: bytes
    media_type: str
    preview: dict[str, Any] | None = None

    @property
    def bodies(self) -> tuple[bytes, ...]:
        """Return all that is stored of it."""
        return (self.content,) if self.preview is None else (self.content, _text(self.preview))


@dataclass(frozen=True, slots=True)
class Kept:
    """The version that holds a file now, and whether it was there before."""

    version: ArtifactVersion
    reused: bool

    @property
    def key(self) -> str:
        """Name the version as results do."""
        return f"{self.version.artifact_id}:{self.version.number}"


@transaction.atomic
def keep_files(
    *, owner: User, room_id: Any, files: Sequence[NativeFile], provenance: Provenance
) -> dict[str, Kept]:
    """Keep each file as the newest version of its name, and return the versions by name."""
    held = hold_files(owner=owner, room_id=room_id, names=[file.name for file in files])
    with stored_together(body for file in files for body in file.bodies):
        return {
            file.name: _keep(held[file.name], owner, file, provenance)
            for file in sorted(files, key=lambda file: file.name)
        }


def hold_files(*, owner: User, room_id: Any, names: Sequence[str]) -> dict[str, Artifact]:
    """Lock the artifacts of these names for the rest of the transaction; the first call makes them.

    In one order everywhere, so that two calls that make the same files never wait in a circle.
    Whoever stores bodies besides does so after this.
    """
    if not names:
        return {}
    ordered = sorted(check_file_name(name) for name in names)
    Artifact.objects.bulk_create(
        [
            Artifact(
                owner=owner, room_id=room_id, title=name, kind=Artifact.Kind.FILE, file_name=name
            )
            for name in ordered
        ],
        ignore_conflicts=True,
    )
    rows = Artifact.objects.select_for_update(no_key=True, of=("self",)).filter(
        owner=owner, room_id=room_id, kind=Artifact.Kind.FILE, file_name__in=ordered
    )
    return {artifact.file_name: artifact for artifact in rows.order_by("file_name")}


def check_file_name(name: str) -> str:
    """Return a name that a file can be kept under, or refuse it."""
    try:
        check_name(name)
    except BadPath as problem:
        raise BadArtifact(str(problem), field="name") from problem
    if len(name) > MAX_FILE_NAME:
        raise BadArtifact(f"A file's name has at most {MAX_FILE_NAME} characters.", field="name")
    return name


def _keep(artifact: Artifact, owner: User, file: NativeFile, provenance: Provenance) -> Kept:
    digest = digest_of(file.content)
    newest = artifact.versions.filter(number=artifact.head).first()
    if newest is not None and (newest.blob_id, newest.media_type) == (digest, file.media_type):
        record(
            actor=owner,
            action="artifact.reused",
            subject=artifact,
            digest=digest,
            detail={"version": newest.number, "call": str(provenance.call_id)},
        )
        return Kept(newest, reused=True)
    drawn = None if file.preview is None else put_blob(_text(file.preview))
    version = append_version(
        artifact,
        author=owner,
        provenance=provenance,
        content=file.content,
        target=file.name,
        media_type=file.media_type,
        preview_id=drawn,
    )
    return Kept(version, reused=False)


def _text(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
