"""How is a file kept that a program made? As opaque bytes under its name, version by version.

One member's file of one name in one room is one artifact. A file whose bytes and type are those of
its newest version is that version; the look and the insert happen under the artifact's row lock, so
two calls that make the same file at once come one after the other.
"""

from __future__ import annotations

import hashlib
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
from apps.core.blobs import put_blob
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
    for file in files:
        check_file_name(file.name)
    # In one order everywhere, so that two calls that make the same files never wait in a circle.
    return {
        file.name: _keep(owner, room_id, file, provenance)
        for file in sorted(files, key=lambda file: file.name)
    }


def check_file_name(name: str) -> str:
    """Return a name that a file can be kept under, or refuse it."""
    try:
        check_name(name)
    except BadPath as problem:
        raise BadArtifact(str(problem), field="name") from problem
    if len(name) > MAX_FILE_NAME:
        raise BadArtifact(f"A file's name has at most {MAX_FILE_NAME} characters.", field="name")
    return name


def _keep(owner: User, room_id: Any, file: NativeFile, provenance: Provenance) -> Kept:
    artifact = _locked(owner, room_id, file.name)
    digest = "sha256:" + hashlib.sha256(file.content).hexdigest()
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


def _locked(owner: User, room_id: Any, name: str) -> Artifact:
    """Return the artifact of this name with its row locked; the first call makes it."""
    Artifact.objects.bulk_create(
        [
            Artifact(
                owner=owner, room_id=room_id, title=name, kind=Artifact.Kind.FILE, file_name=name
            )
        ],
        ignore_conflicts=True,
    )
    artifact: Artifact = Artifact.objects.select_for_update(no_key=True, of=("self",)).get(
        owner=owner, room_id=room_id, kind=Artifact.Kind.FILE, file_name=name
    )
    return artifact


def _text(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
