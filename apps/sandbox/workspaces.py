"""How are the files of a workspace read and edited? What is shown is remembered, here and nowhere
else.

Whoever calls brings the way to the files: this module knows neither leases nor nodes. Contents
come as text, as they lie on disk, and go back as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.core.blobs import stored_together
from apps.domain.hashline import (
    Edited,
    Grammar,
    Memory,
    Refused,
    Target,
    View,
    edit,
    read_text,
    targets_of,
    view,
)
from apps.domain.hashline import Refusal as HashlineRefusal
from apps.domain.hashline.targets import settle_path
from apps.domain.hashline.views import MAX_VIEW_LINES
from apps.rooms.models import Room
from apps.sandbox.errors import FileRefused, MemoryMovedOn, WorkspaceNotFound
from apps.sandbox.memory import load_memory, lock_memory, new_bodies, save_memory
from apps.sandbox.models import Workspace
from apps.sandbox.syntax.ask import confined_grammar

ATTEMPTS = 3
"""So often is a call worked out anew because another one came between."""

ReadFiles = Callable[[Sequence[str]], Mapping[str, str]]
"""Given paths, returns the contents of those that are files."""

WriteFiles = Callable[[Edited], None]
"""Carries out a whole call, or raises and leaves every file as it was."""


def open_workspace(*, owner: User, room_id: Any) -> Workspace:
    """Return the member's workspace in a room that they take part in."""
    room = Room.objects.visible_to(owner).filter(pk=room_id).first()
    if room is None:
        raise WorkspaceNotFound("There is no such room.")
    workspace, _ = Workspace.objects.get_or_create(owner=owner, room=room)
    return workspace


def show_file(
    *,
    workspace_id: Any,
    owner: User,
    path: str,
    content: str,
    first: int = 1,
    count: int = MAX_VIEW_LINES,
) -> View:
    """Show lines of a file, and remember its text and which of its lines were shown."""
    try:
        path = settle_path(path)
        text = read_text(content, path=path).text
    except HashlineRefusal as refusal:
        raise FileRefused(refusal.sentence, extra={"rule": refusal.rule.value}) from None
    shown = view(path, text, first=first, count=count)
    for attempt in range(ATTEMPTS):
        workspace = _workspace(workspace_id, owner)
        before = load_memory(workspace, [Target(path, None, None)])
        after = before.remember(path, text, shown.seen)
        try:
            with transaction.atomic():
                lock_memory(workspace)
                save_memory(workspace, before, after, used=[path])
            return shown
        except MemoryMovedOn:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("Every attempt returns or raises.")


def edit_files(
    *,
    workspace_id: Any,
    owner: User,
    patch: str,
    read: ReadFiles,
    write: WriteFiles,
    grammar: Grammar | None = None,
) -> Edited | Refused:
    """Work out a patch on the files as they are now, and carry it out as a whole, or refuse it.

    Files and memory change together: the memory is written first, then the files, then both are
    committed. When the files cannot be written, nothing was cut and nothing was seen.
    """
    for attempt in range(ATTEMPTS):
        workspace = _workspace(workspace_id, owner)
        before, result = _worked_out(workspace, patch, read, grammar or confined_grammar())
        try:
            with transaction.atomic():
                lock_memory(workspace)
                with stored_together(_bodies(before, result)):
                    save_memory(workspace, before, result.memory, used=[*before.histories])
                    if isinstance(result, Edited) and (result.writes or result.removals):
                        write(result)
            return result
        except MemoryMovedOn:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("Every attempt returns or raises.")


def _bodies(before: Memory, result: Edited | Refused) -> Iterator[bytes]:
    """Yield all that a patch stores: what is remembered of the files, and the files."""
    yield from new_bodies(before, result.memory)
    if isinstance(result, Edited):
        yield from (content.encode() for content in result.writes.values())


def _worked_out(
    workspace: Workspace, patch: str, read: ReadFiles, grammar: Grammar
) -> tuple[Memory, Edited | Refused]:
    try:
        targets = targets_of(patch)
    except HashlineRefusal:
        # The engine says it again, with all that belongs to a refusal.
        targets = []
    memory = load_memory(workspace, targets)
    files = read(_needed(targets, memory)) if targets else {}
    return memory, edit(patch, files=files, memory=memory, grammar=grammar)


def _needed(targets: Sequence[Target], memory: Memory) -> list[str]:
    """Return every path that may be read or that must be free: also those that may be meant."""
    paths = {target.path for target in targets} | set(memory.histories)
    for target in targets:
        if target.destination is not None:
            parts = target.destination.split("/")
            paths |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    return sorted(paths)


def _workspace(workspace_id: Any, owner: User) -> Workspace:
    workspace: Workspace | None = (
        Workspace.objects.visible_to(owner).filter(pk=workspace_id).first()
    )
    if workspace is None:
        raise WorkspaceNotFound("You have no such workspace.")
    return workspace
