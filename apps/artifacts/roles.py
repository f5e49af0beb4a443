"""With whom does an artifact's owner share it, and what may they do in person?

A reader from outside the room reads it; a collaborator writes new versions as well. Both are people
at their own requests: what an agent may read and change comes from owner and room, as ever.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.models import User
from apps.accounts.permissions import Permission, give, may, members_with, take
from apps.accounts.selectors import active_member_called, member_called
from apps.artifacts.errors import BadArtifact, TooManyShares
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.selectors import visible_artifact
from apps.artifacts.services import add_text
from apps.audit.services import record
from apps.core.errors import Conflict, Forbidden
from apps.rooms.services import lock_open_room

MAX_SHARES = 50


class Role(StrEnum):
    """As what an artifact is shared with somebody; its owner is neither."""

    READER = "reader"
    COLLABORATOR = "collaborator"


@transaction.atomic
def share_artifact(
    *, artifact_id: Any, sharer: User, username: str, role: str = Role.READER.value
) -> User:
    """Let another member read an artifact of one's own, or edit it; sharing again changes that."""
    artifact = _lock_own(artifact_id, sharer)
    guest = active_member_called(username)
    if role not in list(Role):
        raise BadArtifact(f"A role is one of {', '.join(Role)}.", field="role")
    if guest.pk == artifact.owner_id:
        raise Conflict("The owner of an artifact keeps it.", field="username")
    if _shares(artifact).exclude(pk=guest.pk).count() >= MAX_SHARES:
        raise TooManyShares(f"An artifact is shared with at most {MAX_SHARES} members.")
    give(guest, Permission.ARTIFACT_READ, artifact)
    change = give if role == Role.COLLABORATOR else take
    change(guest, Permission.ARTIFACT_EDIT, artifact)
    record(
        actor=sharer,
        action="artifact.shared",
        subject=artifact,
        detail={"member": guest.key, "role": str(role)},
    )
    return guest


@transaction.atomic
def unshare_artifact(*, artifact_id: Any, sharer: User, username: str) -> None:
    """Take back what `share_artifact` gave. Who takes part in the room goes on reading it there."""
    artifact = _lock_own(artifact_id, sharer)
    guest = member_called(username)
    if guest.pk == artifact.owner_id:
        raise Conflict("The owner of an artifact keeps it.", field="username")
    take(guest, Permission.ARTIFACT_READ, artifact)
    take(guest, Permission.ARTIFACT_EDIT, artifact)
    record(actor=sharer, action="artifact.unshared", subject=artifact, detail={"member": guest.key})


def shares_of(*, artifact_id: Any, user: User) -> QuerySet[User]:
    """Return with whom an artifact is shared, for those who may edit it; `more` says who may."""
    artifact = visible_artifact(artifact_id=artifact_id, user=user, in_person=True)
    if not _edits(artifact, user):
        raise Forbidden("Who may change an artifact sees with whom it is shared.")
    return _shares(artifact)


@transaction.atomic
def write_version(
    *, artifact_id: Any, member: User, expected_version: int, body: str, title: str | None
) -> ArtifactVersion:
    """Add a version that a person wrote: the owner, or a collaborator.

    Its room is told, so its owner has to take part there still, and it has to be open.
    """
    artifact = _lock_readable(artifact_id, member)
    if not _edits(artifact, member):
        raise Forbidden("Its owner changes an artifact, and whom they made a collaborator.")
    room = lock_open_room(artifact.room_id)
    if not may(artifact.owner, Permission.ROOM_TAKE_PART, room):
        raise Forbidden("Its owner has left the room of this artifact, so it stays as it is.")
    return add_text(
        artifact,
        author=member,
        expected_version=expected_version,
        body=body,
        title=title,
        provenance=None,
    )


def people_of(artifact: Artifact) -> list[User]:
    """Return the same for those who look after Kaizen."""
    return list(_shares(artifact).order_by("username"))


def _shares(artifact: Artifact) -> QuerySet[User]:
    return members_with(artifact, Permission.ARTIFACT_READ, Permission.ARTIFACT_EDIT)


def _edits(artifact: Artifact, member: User) -> bool:
    own = artifact.owner_id == member.pk
    return own or may(member, Permission.ARTIFACT_EDIT, artifact)


def _lock_readable(artifact_id: Any, member: User) -> Artifact:
    # Found by what the member may read, locked, and looked at again: it may be withdrawn by now.
    visible_artifact(artifact_id=artifact_id, user=member, in_person=True)
    Artifact.objects.select_for_update(no_key=True).get(pk=artifact_id)
    return visible_artifact(artifact_id=artifact_id, user=member, in_person=True)


def _lock_own(artifact_id: Any, member: User) -> Artifact:
    artifact = _lock_readable(artifact_id, member)
    if artifact.owner_id != member.pk:
        raise Forbidden("Only its owner says with whom an artifact is shared.")
    return artifact
