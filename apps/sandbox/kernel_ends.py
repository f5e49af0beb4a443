"""How does a kernel end that nobody asks anything of any more?

Its row says that it has to: it has lost its workspace, or was released because a person is waited
for. The row is the queue. A bell goes to the machine where the kernel lives, the sweep rings it
again, and whoever dies in between leaves the row for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.core.queue import ring_at
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.kernels import TOTAL_SECONDS
from apps.sandbox.leases import held_leases, hold_idle, this_node
from apps.sandbox.living import close_living
from apps.sandbox.models import Kernel, Workspace

END_TASK: Final = "sandbox.end_kernel"
END_SECONDS: Final = 15.0
"""A kernel says no farewell: it is killed, and that takes no time."""

log = structlog.get_logger(__name__)


def end_with(workspace: Workspace) -> None:
    """Let the kernels of a workspace end with it, once the deletion has committed."""
    kernels = list(Kernel.objects.filter(workspace=workspace).exclude(node=""))
    Kernel.objects.filter(workspace=workspace, node="").delete()
    for kernel in kernels:
        ring_at(kernel.node, END_TASK, kernel_id=str(kernel.pk))


def living_kernels(*, owner: User, room_id: Any) -> QuerySet[Kernel]:
    """Return the kernels of a member in a room that no call works with now."""
    rows: QuerySet[Kernel] = Kernel.objects.filter(
        ~Q(workspace__lease__in=held_leases()),
        workspace__owner=owner,
        workspace__room_id=room_id,
        released_at=None,
    )
    return rows


def release_kernels(*, owner: User, room_id: Any, path: Path | None = None) -> None:
    """End the idle kernels of a member in a room, because a person is waited for.

    What is in their memory is lost, and the next cell says so. One on another machine is ended
    there, in a moment.
    """
    found = list(living_kernels(owner=owner, room_id=room_id))
    Kernel.objects.filter(pk__in=[one.pk for one in found]).update(released_at=Now())
    for one in found:
        end_kernel(kernel_id=one.pk, path=path)


def kernels_to_end(limit: int) -> Iterable[Any]:
    """Ids of kernels whose workspace was deleted, and of those that were released."""
    return _to_end().order_by("used_at").values_list("pk", flat=True)[:limit]


def end_kernel(*, kernel_id: Any, path: Path | None = None) -> None:
    """End a kernel that is to end, or send that to the machine where it lives.

    Whoever dies in between leaves the row, and the next one ends it. One that a call works with
    stays until that is over.
    """
    kernel = _to_end().select_related("workspace").filter(pk=kernel_id).first()
    if kernel is None:
        return
    if _is_over(kernel):
        _note_end(kernel)
    elif kernel.node != this_node():
        ring_at(kernel.node, END_TASK, kernel_id=str(kernel.pk))
    elif kernel.workspace is None:
        _end(kernel, path)
    else:
        with hold_idle(kernel.workspace, seconds=END_SECONDS) as lease:
            # Whoever had it in between may have started another under the same key.
            if lease is not None and _to_end().filter(pk=kernel.pk).exists():
                _end(kernel, path)


def _end(kernel: Kernel, path: Path | None) -> None:
    connection.close()
    try:
        close_living(key=kernel.key, owner=kernel.holder, path=path, seconds=END_SECONDS)
    except SandboxUnavailable as away:
        log.warning("kernel_not_ended", kernel=kernel.key, why=away.message)
        return
    _note_end(kernel)


def _note_end(kernel: Kernel) -> None:
    """Forget a kernel of no workspace; keep of another that it lives nowhere, to be said."""
    if kernel.workspace_id is None:
        Kernel.objects.filter(pk=kernel.pk).delete()
    else:
        Kernel.objects.filter(pk=kernel.pk).update(node="", generation="")


def _to_end() -> QuerySet[Kernel]:
    released = Q(released_at__isnull=False) & ~Q(node="")
    rows: QuerySet[Kernel] = Kernel.objects.filter(Q(workspace=None) | released)
    return rows


def _is_over(kernel: Kernel) -> bool:
    """Tell whether it lives nowhere: it was ended, or has lived as long as any may."""
    if not kernel.node:
        return True
    since = Now() - timedelta(seconds=TOTAL_SECONDS)
    return Kernel.objects.filter(pk=kernel.pk, started_at__lt=since).exists()
