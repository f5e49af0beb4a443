"""Who works in a workspace now? One call at a time, for a bounded time, under a fence.

A lease ends when it is released, when its time is over, or when its call has been settled: so a
holder that dies leaves nothing that would have to be repaired. Whoever takes the workspace next
raises the fence, and what comes late from the one before finds another number and is refused.

Contents lie in rows and blobs, so any node may be next. The lease names the node all the same:
where the holder works, and where a program lives on between calls.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import (
    BigIntegerField,
    CharField,
    DurationField,
    F,
    IntegerField,
    Q,
    QuerySet,
    UUIDField,
)
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.core.prepared import Change, Given, Prepared
from apps.domain.tooling import CallState
from apps.rooms.models import Room
from apps.sandbox.errors import LeaseLost, WorkspaceBusy
from apps.sandbox.models import Lease as LeaseRow
from apps.sandbox.models import Workspace
from apps.sandbox.workspaces import open_workspace

WAIT_SECONDS: Final = 10.0
"""So long does a call wait for a workspace that another one works in."""
SHORT_WAIT_SECONDS: Final = 2.0
"""The same for a call that holds locks of its run while it waits."""
_GRACE: Final = timedelta(seconds=30)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.25

_BUSY: Final = (
    "Another call is working in this workspace and did not finish in time. Nothing was done; try"
    " again in a moment."
)
_LOST: Final = "The workspace was given to another call, or deleted, meanwhile. Nothing was kept."


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work in a workspace, as it was given."""

    workspace: Workspace
    fence: int
    call_id: uuid.UUID | None
    node: str
    kernel_node: str


def this_node() -> str:
    """Return the name under which leases know this machine."""
    return socket.gethostname()[:120]


def acquire(
    *,
    owner: User,
    room_id: Any,
    call_id: Any,
    deadline: Deadline,
    wait: float = WAIT_SECONDS,
    gave_up: Callable[[], bool] = lambda: False,
) -> Lease:
    """Take the member's workspace in a room for one call, or raise WorkspaceBusy.

    It stays taken until `release`, until `take_back(..., release=True)`, until the call is settled,
    or a little longer than the deadline.
    """
    workspace = _opened(owner, room_id)
    until = time.monotonic() + min(wait, deadline.remaining)
    pause = _FIRST_PAUSE
    while True:
        with transaction.atomic():
            taken = _taken(workspace, call_id, lasts=deadline.remaining)
        if taken is not None:
            return taken
        if time.monotonic() + pause >= until or gave_up():
            raise WorkspaceBusy(_BUSY)
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)


@contextmanager
def hold(
    *, owner: User, room_id: Any, call_id: Any, deadline: Deadline, wait: float = WAIT_SECONDS
) -> Iterator[Lease]:
    """Work in the member's workspace in a room, and release it at the end."""
    lease = acquire(owner=owner, room_id=room_id, call_id=call_id, deadline=deadline, wait=wait)
    try:
        yield lease
    finally:
        release(lease)


def hold_until_commit(*, owner: User, room_id: Any, deadline: Deadline) -> Lease:
    """Take the workspace for the rest of the present transaction, or raise WorkspaceBusy.

    The lock of the lease's row is the hold: it ends with the transaction, however that ends. The
    fence rises all the same, so that a holder whose time is over cannot write over what is done.
    """
    if not transaction.get_connection().in_atomic_block:
        raise LookupError("Without a transaction nothing would be held.")
    workspace = _opened(owner, room_id)
    until = time.monotonic() + min(SHORT_WAIT_SECONDS, deadline.remaining)
    pause = _FIRST_PAUSE
    while True:
        row = _locked(workspace.pk)
        if row is not None and _is_free(row):
            LeaseRow.objects.filter(pk=row.pk).update(
                fence=row.fence + 1, call=None, node=this_node(), taken_at=None, expires_at=None
            )
            return Lease(workspace, row.fence + 1, None, this_node(), row.kernel_node)
        if time.monotonic() + pause >= until:
            raise WorkspaceBusy(_BUSY)
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)


def release(lease: Lease) -> None:
    """Give a workspace back; who has lost it already gives nothing."""
    _RELEASE.run(workspace=lease.workspace.pk, fence=lease.fence)


def demand_released(lease: Lease) -> None:
    """Give a workspace back in the caller's transaction, which holds it to its end, or raise
    LeaseLost.
    """
    if not _RELEASE.run(workspace=lease.workspace.pk, fence=lease.fence):
        raise LeaseLost(_LOST)


def demand(lease: Lease) -> None:
    """Lock a lease for the rest of the transaction, or raise LeaseLost."""
    row = LeaseRow.objects.select_for_update(no_key=True).filter(pk=lease.workspace.pk).first()
    if row is None or row.fence != lease.fence:
        raise LeaseLost(_LOST)


def name_kernel(lease: Lease, node: str) -> None:
    """Note on which node a program of the workspace lives on; an empty name says that none does."""
    with transaction.atomic():
        demand(lease)
        LeaseRow.objects.filter(pk=lease.workspace.pk).update(kernel_node=node[:120])


@contextmanager
def hold_idle(workspace: Workspace, *, seconds: float) -> Iterator[Lease | None]:
    """Keep calls out of a workspace for a moment, for nobody's call; None where one works in it."""
    with transaction.atomic():
        lease = _taken(workspace, None, lasts=seconds)
    try:
        yield lease
    finally:
        if lease is not None:
            release(lease)


def held_leases() -> QuerySet[LeaseRow]:
    """Return the leases under which a call works now."""
    rows: QuerySet[LeaseRow] = LeaseRow.objects.filter(expires_at__isnull=False).exclude(_over())
    return rows


def is_held(workspace_id: Any) -> bool:
    """Tell whether a call works in a workspace now."""
    return held_leases().filter(pk=workspace_id).exists()


def lock_free(workspace_id: Any) -> bool:
    """Lock a workspace that nobody works in for the rest of the transaction; False where one does.

    The fence rises, so that whoever held it before writes nothing more into it.
    """
    _make_row(workspace_id)
    row = _locked(workspace_id)
    if row is None or not _is_free(row):
        return False
    LeaseRow.objects.filter(pk=row.pk).update(fence=row.fence + 1)
    return True


def left_behind(limit: int) -> Iterable[Any]:
    """Ids of workspaces whose holder has gone without releasing them."""
    return (
        LeaseRow.objects.filter(_over(), expires_at__isnull=False)
        .order_by("expires_at")
        .values_list("pk", flat=True)[:limit]
    )


def release_left_behind(*, workspace_id: Any) -> None:
    """Release a workspace whose holder has gone, if it has."""
    with transaction.atomic():
        row = _locked(workspace_id)
        if row is not None and row.expires_at is not None and _is_free(row):
            LeaseRow.objects.filter(pk=row.pk).update(call=None, taken_at=None, expires_at=None)


def _over() -> Q:
    return Q(expires_at__lt=Now()) | Q(call__state=CallState.SETTLED.value)


def _free() -> Q:
    return Q(expires_at=None) | _over()


def _opened(owner: User, room_id: Any) -> Workspace:
    """Return the member's workspace in a room, with the row of its lease in place."""
    known = _KNOWN.first(owner=owner.pk, room=room_id) if owner.is_active else None
    if known is not None:
        return known
    workspace = open_workspace(owner=owner, room_id=room_id)
    _make_row(workspace.pk)
    return workspace


_KNOWN = Prepared(
    lambda: Workspace.objects.order_by().filter(
        owner=Given("owner", IntegerField()),
        room__in=Room.objects.visible_under(Given("owner", IntegerField())).filter(
            pk=Given("room", UUIDField())
        ),
        lease__isnull=False,
    )
)


def _make_row(workspace_id: Any) -> None:
    # Looked for first: inserting would wait for whoever has changed the row and not committed yet.
    if not LeaseRow.objects.filter(pk=workspace_id).exists():
        LeaseRow.objects.bulk_create([LeaseRow(workspace_id=workspace_id)], ignore_conflicts=True)


def _locked(workspace_id: Any) -> LeaseRow | None:
    """Lock a workspace's lease, if nobody else has it locked."""
    rows = LeaseRow.objects.select_for_update(no_key=True, skip_locked=True)
    return rows.filter(pk=workspace_id).first()


def _is_free(row: LeaseRow) -> bool:
    """Tell, by the database's clock, whether a locked lease is nobody's any more."""
    return row.expires_at is None or LeaseRow.objects.filter(_over(), pk=row.pk).exists()


def _taken(workspace: Workspace, call_id: Any, *, lasts: float) -> Lease | None:
    """Take a workspace that nobody works in, by the database's clock; None where one does."""
    node = this_node()
    taken = _TAKE.run(
        workspace=workspace.pk, call=call_id, node=node, lasts=timedelta(seconds=lasts) + _GRACE
    )
    return next((Lease(workspace, fence, call_id, node, kernel) for fence, kernel in taken), None)


_LEASE = Given("workspace", UUIDField())
_TAKE = Change(
    lambda: LeaseRow.objects.order_by().filter(
        pk__in=LeaseRow.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        .order_by()
        .filter(_free(), pk=_LEASE)
        .values("pk")
    ),
    {
        "fence": F("fence") + 1,
        "call": Given("call", UUIDField()),
        "node": Given("node", CharField()),
        "taken_at": Now(),
        "expires_at": Now() + Given("lasts", DurationField()),
    },
    returning=["fence", "kernel_node"],
)
_RELEASE = Change(
    lambda: LeaseRow.objects.order_by().filter(pk=_LEASE, fence=Given("fence", BigIntegerField())),
    {"call": None, "taken_at": None, "expires_at": None},
)
