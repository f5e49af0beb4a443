"""Put files into a workspace before anything runs in it, and find what became of them after.

Nothing here follows what a program left behind: every name is opened below the workspace's own
folder, with no link, no other mount and no way up.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from apps.domain.paths import MAX_PARTS, BadPath, check_name, fold
from apps.sandboxd.collect import REFUSALS, open_beneath
from apps.sandboxd.workfiles import (
    MAX_LEFT_OUT,
    MAX_WORK_BYTES,
    MAX_WORK_FILE,
    MAX_WORK_FILES,
    BadWorkFiles,
    Known,
    LeftOut,
    WorkChanges,
    WorkFile,
)

MAX_ENTRIES: Final = 20_000
"""So many names are looked at; whoever makes more has made too many files."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def files_of(uid: int | None) -> Iterator[None]:
    """Let this thread, and no other, make files as a sandbox's user.

    A sandbox's file systems know no root of the host, so root could not make a file there.
    """
    if uid is None:
        yield
        return
    before = os.geteuid(), os.getegid()
    try:
        _become(uid, uid)
        yield
    finally:
        _become(*before)


def _become(uid: int, gid: int) -> None:
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    # Neither call reports a failure; asking for an impossible id changes nothing and tells.
    if (_libc.setfsuid(-1), _libc.setfsgid(-1)) != (uid, gid):
        raise PermissionError(errno.EPERM, "The supervisor cannot make files for a sandbox.")


def stage(folder: int, files: Sequence[WorkFile], *, uid: int | None) -> None:
    """Write files into an empty workspace, as its own user; raise BadWorkFiles where they do not
    fit into it.
    """
    if not files:
        return
    made: set[str] = set()
    try:
        with files_of(uid):
            for file in files:
                _make_folders(folder, file.name, made)
                _write(folder, file)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BadWorkFiles(
                "The files do not fit into the workspace: its limit workspace_mb is too low."
            ) from problem
        raise


def _make_folders(folder: int, name: str, made: set[str]) -> None:
    parts = name.split("/")
    for depth in range(1, len(parts)):
        place = "/".join(parts[:depth])
        if place in made:
            continue
        above, _, last = place.rpartition("/")
        holder = open_beneath(folder, above or ".", _FOLDER)
        try:
            os.mkdir(last, 0o755, dir_fd=holder)
        except FileExistsError:
            pass  # whatever it is, the next step opens it as a folder or fails
        finally:
            os.close(holder)
        made.add(place)


def _write(folder: int, file: WorkFile) -> None:
    opened = open_beneath(folder, file.name, _NEW, 0o600)
    try:
        view = memoryview(file.content)
        while view:
            view = view[os.write(opened, view) :]
        # The supervisor's umask has no say in what a sandbox's files may do.
        os.fchmod(opened, 0o755 if file.executable else 0o644)
    finally:
        os.close(opened)


def take_back(folder: int, known: Mapping[str, Known]) -> WorkChanges:
    """Compare a workspace with what was put into it; bytes of unchanged files are not kept.

    Every process that could still write here has to be dead, or stopped.
    """
    return compared(folder, known)[0]


def compared(folder: int, known: Mapping[str, Known]) -> tuple[WorkChanges, frozenset[str]]:
    """Do the same, and name the files of `known` that were read and are in their place."""
    walk = _Walk(folder, known)
    try:
        walk.enter("", folder)
    except _Over as too_much:
        return WorkChanges(over=str(too_much)), frozenset()
    walk.settle_clashes()
    gone = [
        name
        for name in known
        if name not in walk.found
        and name not in walk.kept
        and not any(above in walk.closed for above in _above(name))
    ]
    changes = WorkChanges(
        changed=tuple(walk.changed[name] for name in sorted(walk.changed)),
        removed=tuple(sorted(gone)),
        left_out=tuple(sorted(walk.left_out)[:MAX_LEFT_OUT]),
        left_out_total=len(walk.left_out),
    )
    return changes, frozenset(walk.found & known.keys())


def _above(name: str) -> Iterator[str]:
    """Yield every folder on the way to a file: few, however many folders nobody could open."""
    place = name
    while "/" in place:
        place = place.rpartition("/")[0]
        yield place


class _Over(Exception):
    """The workspace is larger than what may come back."""


@dataclass(slots=True)
class _Walk:
    folder: int
    known: Mapping[str, Known]
    found: set[str] = field(default_factory=set)
    changed: dict[str, WorkFile] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    entries: int = 0
    size: int = 0

    def enter(self, place: str, opened: int) -> None:
        """Look at everything in one folder, and below it."""
        for last in sorted(os.listdir(opened)):
            self.entries += 1
            if self.entries > MAX_ENTRIES:
                raise _Over("too_many_files")
            name = f"{place}/{last}" if place else last
            try:
                facts = os.stat(last, dir_fd=opened, follow_symlinks=False)
                self._look(name, facts)
            except OSError as problem:
                self._leave_out(name, REFUSALS.get(problem.errno or 0, "unreadable"))

    def _look(self, name: str, facts: os.stat_result) -> None:
        try:
            check_name(name)
        except BadPath as problem:
            self._leave_out(name, "too_deep" if problem.code == "too_deep" else "bad_name")
            return
        if stat.S_ISDIR(facts.st_mode):
            self._folder(name)
        elif stat.S_ISLNK(facts.st_mode):
            self._leave_out(name, "link")
        elif not stat.S_ISREG(facts.st_mode):
            self._leave_out(name, "not_a_file")
        else:
            self._file(name)

    def _folder(self, name: str) -> None:
        if name.count("/") + 1 >= MAX_PARTS:
            self._leave_out(name, "too_deep")
            return
        try:
            opened = open_beneath(self.folder, name, _FOLDER)
        except OSError as problem:
            self.closed.add(name)
            self._leave_out(name, REFUSALS.get(problem.errno or 0, "unreadable"))
            return
        try:
            self.enter(name, opened)
        finally:
            os.close(opened)

    def _file(self, name: str) -> None:
        opened = open_beneath(self.folder, name, _READ)
        try:
            facts = os.fstat(opened)
            if not stat.S_ISREG(facts.st_mode):
                self._leave_out(name, "not_a_file")
            elif facts.st_nlink != 1:
                self._leave_out(name, "hard_link")
            elif facts.st_size > MAX_WORK_FILE:
                self._leave_out(name, "too_large")
            else:
                self._take(name, opened, executable=bool(facts.st_mode & stat.S_IXUSR))
        finally:
            os.close(opened)

    def _take(self, name: str, opened: int, *, executable: bool) -> None:
        with os.fdopen(opened, "rb", closefd=False) as file:
            # One byte more than allowed proves an excess whatever the size said.
            content = file.read(MAX_WORK_FILE + 1)
        if len(content) > MAX_WORK_FILE:
            self._leave_out(name, "too_large")
            return
        self.size += len(content)
        if self.size > MAX_WORK_BYTES:
            raise _Over("too_many_bytes")
        if len(self.found) >= MAX_WORK_FILES:
            raise _Over("too_many_files")
        self.found.add(name)
        before = self.known.get(name)
        if before is None or not _same(before, content, executable):
            self.changed[name] = WorkFile(name, content, executable)

    def settle_clashes(self) -> None:
        """Leave out new names that no tree may hold beside the others, such as `a` beside `A`.

        Names that were put in are first: they stood together before.
        """
        taken: dict[str, str] = {}
        for name in sorted(self.found, key=lambda one: (one not in self.known, one)):
            if _clashes(name, taken):
                self.found.discard(name)
                del self.changed[name]
                self._leave_out(name, "clash")

    def _leave_out(self, name: str, code: str) -> None:
        self.left_out.append(LeftOut(name, code))
        self.kept.add(name)


def _clashes(name: str, taken: dict[str, str]) -> bool:
    """Tell whether a name, or a folder on its way, differs from a known one only in how it is
    written; where it does not, note all of them.
    """
    parts = name.split("/")
    steps = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    if any(taken.get(fold(step), step) != step for step in steps):
        return True
    taken.update((fold(step), step) for step in steps)
    return False


def _same(before: Known, content: bytes, executable: bool) -> bool:
    return (
        before.executable == executable
        and before.size == len(content)
        and before.digest == hashlib.sha256(content).digest()
    )
