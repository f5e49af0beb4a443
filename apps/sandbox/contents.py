"""What lies in a workspace? Rows and blobs: staged into a sandbox before a call, taken back after.

No node keeps files between calls, so releasing a worker, a crash or another node lose nothing but
what an unfinished call did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.db.models import Sum, UUIDField
from django.db.models.functions import Now

from apps.core.blobs import get_blobs, put_blobs
from apps.core.prepared import Change, Given, Prepared
from apps.domain.paths import BadPath, check_tree
from apps.sandbox.errors import WorkspaceFull
from apps.sandbox.leases import Lease, demand, demand_released
from apps.sandbox.models import Workspace, WorkspaceFile
from apps.sandbox.spec import WorkChanges, WorkFile
from apps.sandboxd.workfiles import MAX_WORK_BYTES, MAX_WORK_FILE, MAX_WORK_FILES

MAX_FILES: Final = MAX_WORK_FILES
MAX_BYTES: Final = MAX_WORK_BYTES
MAX_FILE: Final = MAX_WORK_FILE

_MIB: Final = 1024 * 1024
_OVER: Final = {
    "too_many_files": f"more than {MAX_FILES:,} files",
    "too_many_bytes": f"more than {MAX_BYTES // _MIB} MiB",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a call's changes was kept, by name."""

    changed: tuple[str, ...]
    removed: tuple[str, ...]


def contents(workspace: Workspace, paths: Collection[str] | None = None) -> tuple[WorkFile, ...]:
    """Return the files of a workspace, or those of these names, as they are staged."""
    if paths is None:
        found = _FILES.all(workspace=workspace.pk)
    else:
        found = list(WorkspaceFile.objects.filter(workspace=workspace, path__in=paths))
    bodies = get_blobs(file.blob_id for file in found)
    return tuple(
        WorkFile(file.path, bodies[file.blob_id], file.executable)
        for file in sorted(found, key=lambda file: file.path)
    )


_FILES = Prepared(
    lambda: WorkspaceFile.objects.order_by().filter(workspace=Given("workspace", UUIDField()))
)


def take_back(lease: Lease, changes: WorkChanges, *, release_after: bool = False) -> Kept:
    """Make the workspace what a call left, all or nothing; the lease has to stand still.

    Raises LeaseLost where another call has the workspace now, and WorkspaceFull where it would
    hold too much; both leave the old state. In a transaction of the caller's it commits with that.
    """
    if changes.over:
        said = _OVER.get(changes.over, "more than it may")
        raise WorkspaceFull(f"The workspace would hold {said}; its files stay as they were.")
    with transaction.atomic():
        if release_after:
            demand_released(lease)
        else:
            demand(lease)
        _apply(lease.workspace, changes)
    return Kept(tuple(file.name for file in changes.changed), changes.removed)


def _apply(workspace: Workspace, changes: WorkChanges) -> None:
    if not changes.changed and not changes.removed:
        _USED.run(workspace=workspace.pk)
        return
    rows = WorkspaceFile.objects.filter(workspace=workspace)
    sizes = dict(rows.values_list("path", "size"))
    for name in changes.removed:
        sizes.pop(name, None)
    sizes.update((file.name, len(file.content)) for file in changes.changed)
    _demand_room(sizes)
    if changes.removed:
        rows.filter(path__in=changes.removed).delete()
    _write(workspace, changes.changed)
    Workspace.objects.filter(pk=workspace.pk).update(
        updated_at=Now(), files_count=len(sizes), files_bytes=sum(sizes.values())
    )


_USED = Change(
    lambda: Workspace.objects.order_by().filter(pk=Given("workspace", UUIDField())),
    {"updated_at": Now()},
)


def _demand_room(sizes: dict[str, int]) -> None:
    """Refuse what a workspace does not hold, in the words of whoever has to make it smaller."""
    if len(sizes) > MAX_FILES:
        raise WorkspaceFull(
            f"The workspace would hold {len(sizes):,} files; it holds at most {MAX_FILES:,}. Its"
            " files stay as they were."
        )
    if (total := sum(sizes.values())) > MAX_BYTES:
        raise WorkspaceFull(
            f"The workspace would hold {total:,} bytes; it holds at most {MAX_BYTES:,}. Its files"
            " stay as they were."
        )
    large = next((name for name, size in sizes.items() if size > MAX_FILE), None)
    if large is not None:
        raise WorkspaceFull(
            f"{large[:80]!a} has more than {MAX_FILE:,} bytes. The files stay as they were."
        )
    try:
        check_tree(sizes, max_files=MAX_FILES)
    except BadPath as problem:
        raise WorkspaceFull(f"{problem} The files stay as they were.") from problem


def _write(workspace: Workspace, files: Sequence[WorkFile]) -> None:
    digests = put_blobs(file.content for file in files)
    WorkspaceFile.objects.bulk_create(
        [
            WorkspaceFile(
                workspace=workspace,
                path=file.name,
                blob_id=digests[file.content],
                size=len(file.content),
                executable=file.executable,
                changed_at=Now(),
            )
            for file in files
        ],
        batch_size=500,
        update_conflicts=True,
        unique_fields=["workspace", "path"],
        update_fields=["blob", "size", "executable", "changed_at"],
    )


def sizes_of(workspace: Workspace) -> tuple[int, int]:
    """Return how many files there are and how many bytes, counted anew."""
    rows = WorkspaceFile.objects.filter(workspace=workspace)
    return rows.count(), rows.aggregate(total=Sum("size"))["total"] or 0


def held_blobs() -> Iterable[str]:
    """Name the digests that files of workspaces still point at."""
    yield from WorkspaceFile.objects.values_list("blob_id", flat=True)
