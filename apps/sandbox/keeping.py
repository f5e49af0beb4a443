"""What does a member see of a workspace, and how does it end: by its owner, or because nobody used
it for long?
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.audit.services import SYSTEM, record
from apps.core.api.downloads import StoredFile
from apps.rooms.selectors import visible_room
from apps.sandbox.contents import MAX_BYTES, MAX_FILES
from apps.sandbox.errors import FileNotThere, WorkspaceInUse, WorkspaceNotFound
from apps.sandbox.kernel_ends import end_with
from apps.sandbox.leases import is_held, lock_free
from apps.sandbox.models import Workspace, WorkspaceFile

CLOSED_ROOM_DAYS: Final = 7
"""So long after its room was closed is a workspace kept; nothing can use it any more."""
FORGET_LIMIT: Final = 500
"""At most so many in one go."""


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """A member's workspace in a room, which may never have been used."""

    workspace: Workspace | None
    files_count: int
    files_bytes: int
    updated_at: datetime | None
    busy: bool
    most_files: int = MAX_FILES
    most_bytes: int = MAX_BYTES


def workspace_state(*, user: User, room_id: Any) -> WorkspaceState:
    """Return how the member's own workspace in a room stands."""
    workspace = _own(user, room_id)
    if workspace is None:
        return WorkspaceState(None, 0, 0, None, busy=False)
    return WorkspaceState(
        workspace,
        workspace.files_count,
        workspace.files_bytes,
        workspace.updated_at,
        busy=is_held(workspace.pk),
    )


def files_of(*, user: User, room_id: Any) -> QuerySet[WorkspaceFile]:
    """Return the files of the member's own workspace in a room, without their bytes."""
    room = visible_room(room_id=room_id, user=user)
    return WorkspaceFile.objects.filter(workspace__owner=user, workspace__room=room)


def stored_file(*, user: User, room_id: Any, path: str) -> StoredFile:
    """Return a file of the member's own workspace to hand out, without its bytes."""
    file = files_of(user=user, room_id=room_id).filter(path=path).first()
    if file is None:
        raise FileNotThere("Your workspace of this room has no such file.", field="path")
    return StoredFile(file.blob_id, file.size, path.rpartition("/")[2])


def delete_workspace(*, user: User, room_id: Any) -> None:
    """Delete the member's own workspace in a room: files, retained texts and registers.

    While a call works in it, it stays, and WorkspaceInUse says so.
    """
    workspace = _own(user, room_id)
    if workspace is None:
        raise WorkspaceNotFound("You have no workspace in this room.")
    with transaction.atomic():
        if not lock_free(workspace.pk):
            raise WorkspaceInUse(
                "A call is working in this workspace. Wait until it has ended, or stop it."
            )
        _remove(workspace, actor=user, action="workspace.deleted")


def forget_workspaces(*, days: int) -> int:
    """Delete workspaces that nobody used for so many days, and those of rooms closed for a while.

    Return how many. Zero days keep those of open rooms for ever.
    """
    forgotten = 0
    oldest = _unused(days).order_by("updated_at").values_list("pk", flat=True)
    for ident in list(oldest[:FORGET_LIMIT]):
        with transaction.atomic():
            # Whoever took it meanwhile keeps it.
            if not lock_free(ident):
                continue
            workspace = _unused(days).filter(pk=ident).first()
            if workspace is not None:
                _remove(workspace, actor=SYSTEM, action="workspace.forgotten")
                forgotten += 1
    return forgotten


def _unused(days: int) -> QuerySet[Any]:
    over = Q(
        room__closed_at__lt=Now() - timedelta(days=CLOSED_ROOM_DAYS),
        updated_at__lt=Now() - timedelta(days=CLOSED_ROOM_DAYS),
    )
    if days:
        over |= Q(updated_at__lt=Now() - timedelta(days=days))
    rows: QuerySet[Any] = Workspace.objects.filter(over)
    return rows


def _own(user: User, room_id: Any) -> Workspace | None:
    room = visible_room(room_id=room_id, user=user)
    found: Workspace | None = Workspace.objects.visible_to(user).filter(room=room).first()
    return found


def _remove(workspace: Workspace, *, actor: User | str, action: str) -> None:
    record(
        actor=actor,
        action=action,
        subject=workspace,
        detail={
            "owner": f"user:{workspace.owner_id}",
            "room": f"room:{workspace.room_id}",
            "files": workspace.files_count,
            "bytes": workspace.files_bytes,
        },
    )
    end_with(workspace)
    workspace.delete()
