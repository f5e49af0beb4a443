"""Where does what was shown and cut lie between calls? In rows, bodies in blobs by digest.

A worker, its node and the workspace itself may go; the next one finds the same memory here. Every
change of it raises the workspace's revision under its lock, so of two that worked from the same
memory one finds that it has moved on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from django.db.models import Max, Q, Sum

from apps.core.blobs import digest_of, get_blobs, put_blobs
from apps.domain.hashline import MAX_VERSIONS, Idle, LineSet, Memory, Snapshot, Target
from apps.sandbox.errors import MemoryMovedOn
from apps.sandbox.models import FileSnapshot, Register, Workspace

MAX_PATHS = 256
MAX_RETAINED_BYTES = 64 * 1024 * 1024
"""For each workspace; the path that was used least recently goes first."""

_Histories = Mapping[str, tuple[Snapshot, ...]]


def load_memory(workspace: Workspace, targets: Sequence[Target]) -> Memory:
    """Return what is remembered of the files that a call names, and of those it may mean."""
    paths = {path for target in targets for path in (target.path, target.destination) if path}
    rows = FileSnapshot.objects.filter(workspace=workspace)
    alike = Q()
    for target in targets:
        if target.tag is not None:
            alike |= Q(name=target.name, tag=target.tag)
    if alike:
        paths |= set(rows.filter(alike).values_list("path", flat=True))
    named = list(Register.objects.filter(workspace=workspace))
    kept = list(rows.filter(path__in=paths).order_by("path", "-position"))
    bodies = get_blobs([row.blob_id for row in kept] + [row.blob_id for row in named])
    histories: defaultdict[str, list[Snapshot]] = defaultdict(list)
    for row in kept:
        seen = LineSet.of((first, last) for first, last in row.seen)
        histories[row.path].append(Snapshot(bodies[row.blob_id].decode(), row.tag, seen))
    idle = Idle(workspace.idle_digest, workspace.idle_times) if workspace.idle_times else None
    return Memory(
        {path: tuple(history) for path, history in histories.items()},
        {row.name: tuple(bodies[row.blob_id].decode().split("\n")) for row in named},
        idle,
    )


def lock_memory(workspace: Workspace) -> None:
    """Lock a workspace whose memory was read before, or refuse if it has moved on since."""
    current = (
        Workspace.objects.select_for_update(no_key=True)
        .filter(pk=workspace.pk)
        .values_list("revision", flat=True)
        .first()
    )
    if current != workspace.revision:
        raise MemoryMovedOn("Another call used the workspace at the same time.")


def save_memory(
    workspace: Workspace, before: Memory, after: Memory, *, used: Collection[str] = ()
) -> None:
    """Write down what a call changed, and which paths it used. The caller holds the lock."""
    workspace.revision += 1
    workspace.idle_digest = after.idle.digest if after.idle else ""
    workspace.idle_times = after.idle.times if after.idle else 0
    workspace.save(update_fields=["revision", "idle_digest", "idle_times", "updated_at"])
    _save_histories(workspace, before.histories, after.histories, used)
    _save_registers(workspace, before.registers, after.registers)


def new_bodies(before: Memory, after: Memory) -> Iterator[bytes]:
    """Yield every body that `save_memory` stores of these."""
    known = {one.text for history in before.histories.values() for one in history}
    for history in after.histories.values():
        yield from (one.text.encode() for one in history if one.text not in known)
    for name, lines in after.registers.items():
        if before.registers.get(name) != lines:
            yield _cut(lines)


def _cut(lines: Sequence[str]) -> bytes:
    return "\n".join(lines).encode()


def _save_histories(
    workspace: Workspace, before: _Histories, after: _Histories, used: Collection[str]
) -> None:
    changed = {
        path
        for path in (*before, *after)
        if path in used or before.get(path, ()) != after.get(path, ())
    }
    if not changed:
        return
    known = {snapshot.text for path in changed for snapshot in before.get(path, ())}
    FileSnapshot.objects.filter(workspace=workspace, path__in=changed).delete()
    kept = [
        (path, place, snapshot)
        for path in sorted(changed)
        for place, snapshot in enumerate(after.get(path, ()))
    ]
    put_blobs(one.text.encode() for _, _, one in kept if one.text not in known)
    FileSnapshot.objects.bulk_create(_row(workspace, *one) for one in kept)
    _forget_least_used(workspace, keep=changed)


def _row(workspace: Workspace, path: str, place: int, snapshot: Snapshot) -> FileSnapshot:
    body = snapshot.text.encode()
    return FileSnapshot(
        workspace=workspace,
        path=path,
        name=path.rpartition("/")[2],
        tag=snapshot.tag,
        blob_id=digest_of(body),
        size=len(body),
        seen=[list(pair) for pair in snapshot.seen.ranges],
        position=workspace.revision * MAX_VERSIONS + MAX_VERSIONS - 1 - place,
    )


def _forget_least_used(workspace: Workspace, *, keep: set[str]) -> None:
    rows = FileSnapshot.objects.filter(workspace=workspace)
    paths, size = 0, 0
    too_many: list[str] = []
    for path, held, _ in (
        rows.values("path")
        .annotate(held=Sum("size"), last=Max("position"))
        .order_by("-last", "path")
        .values_list("path", "held", "last")
    ):
        paths, size = paths + 1, size + held
        if path not in keep and (paths > MAX_PATHS or size > MAX_RETAINED_BYTES):
            too_many.append(path)
    if too_many:
        rows.filter(path__in=too_many).delete()


def _save_registers(
    workspace: Workspace,
    before: Mapping[str, tuple[str, ...]],
    after: Mapping[str, tuple[str, ...]],
) -> None:
    cut = {name: _cut(lines) for name, lines in after.items() if before.get(name) != lines}
    stored = put_blobs(cut.values())
    for name, body in cut.items():
        Register.objects.update_or_create(
            workspace=workspace, name=name, defaults={"blob_id": stored[body]}
        )


def held_blobs() -> Iterable[str]:
    """Name the digests that snapshots and registers still point at."""
    yield from FileSnapshot.objects.values_list("blob_id", flat=True)
    yield from Register.objects.values_list("blob_id", flat=True)
