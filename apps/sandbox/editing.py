"""How does one call list, read and edit the files of a workspace? Under its lease, in one
transaction with whatever the caller's own is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.domain.hashline import Edited, Grammar, Refused, View
from apps.domain.hashline import Refusal as HashlineRefusal
from apps.domain.hashline.targets import settle_path
from apps.domain.hashline.views import MAX_VIEW_LINES
from apps.sandbox.contents import contents, take_back
from apps.sandbox.errors import FileNotThere, FileRefused
from apps.sandbox.leases import Lease, hold_until_commit
from apps.sandbox.models import Workspace, WorkspaceFile
from apps.sandbox.spec import WorkChanges, WorkFile
from apps.sandbox.workspaces import edit_files, show_file

MAX_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """One file of a listing."""

    path: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the files below a folder, in the order of their paths, and how many there are."""

    files: tuple[Listed, ...]
    total: int
    more: bool


def read_workspace(
    *,
    owner: User,
    room_id: Any,
    deadline: Deadline,
    path: str,
    first: int = 1,
    count: int = MAX_VIEW_LINES,
    after: str = "",
) -> View | Listing:
    """Show lines of a file, or list the files of a folder; the workspace itself is one.

    What is shown is remembered. Raises FileNotThere and FileRefused.
    """
    lease = hold_until_commit(owner=owner, room_id=room_id, deadline=deadline)
    place = _settled(path)
    if place:
        found = contents(lease.workspace, [place])
        if found:
            return show_file(
                workspace_id=lease.workspace.pk,
                owner=owner,
                path=place,
                content=_text(found[0].content),
                first=first,
                count=count,
            )
    listing = list_files(lease.workspace, folder=place, after=after)
    if place and not listing.total:
        raise FileNotThere(f"There is no file and no folder {place[:200]!a} in the workspace.")
    return listing


def list_files(workspace: Workspace, *, folder: str = "", after: str = "") -> Listing:
    """Return a page of the files below a folder."""
    rows = WorkspaceFile.objects.filter(workspace=workspace)
    if folder:
        rows = rows.filter(path__startswith=f"{folder}/")
    names = sorted(rows.values_list("path", "size", "executable"))
    rest = [row for row in names if row[0] > after]
    page = tuple(Listed(*row) for row in rest[:MAX_LISTED])
    return Listing(page, len(names), len(rest) > MAX_LISTED)


def edit_workspace(
    *,
    owner: User,
    room_id: Any,
    deadline: Deadline,
    patch: str,
    grammar: Grammar | None = None,
) -> Edited | Refused:
    """Work out a patch on the files as they are, and carry it out as a whole, or refuse it."""
    lease = hold_until_commit(owner=owner, room_id=room_id, deadline=deadline)
    held: dict[str, WorkFile] = {}

    def read(paths: Sequence[str]) -> Mapping[str, str]:
        held.update((file.name, file) for file in contents(lease.workspace, paths))
        return {name: _text(file.content) for name, file in held.items()}

    return edit_files(
        workspace_id=lease.workspace.pk,
        owner=owner,
        patch=patch,
        read=read,
        write=lambda edited: _write(lease, held, edited),
        grammar=grammar,
    )


def _write(lease: Lease, held: Mapping[str, WorkFile], edited: Edited) -> None:
    """Carry an edit out. What may be executed may be executed afterwards too, also elsewhere."""
    sources = {section.path: section.source for section in edited.sections}
    changed = tuple(
        WorkFile(path, content.encode(), _may_be_executed(held, sources.get(path, path)))
        for path, content in edited.writes.items()
    )
    take_back(lease, WorkChanges(changed=changed, removed=tuple(edited.removals)))


def _may_be_executed(held: Mapping[str, WorkFile], path: str) -> bool:
    return path in held and held[path].executable


def _settled(path: str) -> str:
    """Return a path in its one form; what names the workspace itself is empty."""
    if path.strip("/") in ("", "."):
        return ""
    try:
        return settle_path(path)
    except HashlineRefusal as refusal:
        raise FileRefused(refusal.sentence, extra={"rule": refusal.rule.value}) from None


def _text(content: bytes) -> str:
    """Return bytes as text. What is no UTF-8 comes out as something that Hashline refuses."""
    return content.decode("utf-8", "surrogateescape")
