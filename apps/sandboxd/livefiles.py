"""Make the workspace of a living sandbox equal to a list of files, and see what became of it.

Programs may change anything in it at the same time. So every step opens what it touches below the
workspace's own folder, follows nothing, and takes bytes as they are at that moment.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from apps.sandboxd.collect import collect, open_beneath
from apps.sandboxd.jobs import MAX_OUTPUT_BYTES, Output
from apps.sandboxd.limits import MIB, Limits
from apps.sandboxd.workfiles import BadWorkFiles, Known, WorkChanges, WorkFile, known_of
from apps.sandboxd.workspace import compared, files_of, take_back

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# What is known of a file that was being changed when something failed: it equals none.
_UNSURE: Final = Known(-1, b"", executable=False)


class FolderGone(BadWorkFiles):
    """The sandbox ended before its files were in place."""


class LiveFiles:
    """The files of a living workspace, and what was last known of them.

    It holds a descriptor of its own, so whoever still works with it when the sandbox dies touches
    a file system that nobody sees any more, and nothing else.
    """

    def __init__(self, folder: int) -> None:
        self._folder = os.dup(folder)
        owner = os.fstat(folder).st_uid
        self._uid = owner if owner != os.geteuid() else None
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}

    def close(self) -> None:
        """Let go of the workspace."""
        with self._lock:
            if self._folder >= 0:
                os.close(self._folder)
            self._folder = -1

    def needed(self, wanted: Mapping[str, Known]) -> list[str]:
        """Return the names whose bytes have to be handed in."""
        return [name for name, known in wanted.items() if self._known.get(name) != known]

    def put(self, wanted: Mapping[str, Known], files: Sequence[WorkFile]) -> None:
        """Write files and remove what is no longer wanted; raise BadWorkFiles where that fails.

        What was done until then stays done, and is known: the next time makes up for it.
        """
        given = known_of(files)
        if given != {name: wanted.get(name) for name in self.needed(wanted)}:
            raise BadWorkFiles("The files are not the ones that were asked for.")
        with self._lock:
            if self._folder < 0:
                raise FolderGone("The sandbox ended before its files were in place.")
            try:
                with files_of(self._uid):
                    for name in [name for name in self._known if name not in wanted]:
                        self._known[name] = _UNSURE
                        self._clear(name)
                        del self._known[name]
                    for file in files:
                        self._known[file.name] = _UNSURE
                        self._write(file)
                        self._known[file.name] = wanted[file.name]
            except OSError as problem:
                raise BadWorkFiles(
                    f"The files could not be put into the workspace: {problem.strerror}."
                ) from problem
            self._known = dict(wanted)

    def take(self) -> WorkChanges:
        """Return how the workspace differs from what was last known of it, and remember it."""
        with self._lock:
            if self._folder < 0:
                return WorkChanges(over="ended")
            changes, seen = compared(self._folder, self._known)
            # Where something else lies in a file's place, such as a link, or nobody could look,
            # the file is put there again before the next request.
            before = {k: v if k in seen else _UNSURE for k, v in self._known.items()}
            after = {**before, **known_of(changes.changed)}
            gone = set(changes.removed)
            self._known = {name: one for name, one in after.items() if name not in gone}
            return changes

    def all(self) -> WorkChanges:
        """Return everything that lies in the workspace now; nothing of it is remembered."""
        with self._lock:
            if self._folder < 0:
                return WorkChanges(over="ended")
            return take_back(self._folder, {})

    def collect(self, names: Sequence[str], limits: Limits) -> tuple[Output, ...]:
        """Read named files as they are now."""
        with self._lock:
            if self._folder < 0 or not names:
                return ()
            most = limits.workspace_mb * MIB
            return collect(self._folder, names, max_file=most, max_total=MAX_OUTPUT_BYTES)

    def _clear(self, name: str) -> None:
        """Remove a file, if one is there; the program may have been first, or made it a folder."""
        above, _, last = name.rpartition("/")
        try:
            holder = open_beneath(self._folder, above or ".", _FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(last, dir_fd=holder)
        finally:
            os.close(holder)

    def _write(self, file: WorkFile) -> None:
        above, _, last = file.name.rpartition("/")
        holder = self._holder(above)
        try:
            _remove(holder, last)
            opened = os.open(last, _NEW | os.O_CLOEXEC, 0o600, dir_fd=holder)
        finally:
            os.close(holder)
        try:
            view = memoryview(file.content)
            while view:
                view = view[os.write(opened, view) :]
            os.fchmod(opened, 0o755 if file.executable else 0o644)
        finally:
            os.close(opened)

    def _holder(self, above: str) -> int:
        """Open the folder of a file, making what is missing on the way."""
        parts = above.split("/") if above else []
        holder = open_beneath(self._folder, ".", _FOLDER)
        for depth, part in enumerate(parts, start=1):
            try:
                os.mkdir(part, 0o755, dir_fd=holder)
            except FileExistsError:
                pass  # whatever it is, the next step opens it as a folder or fails
            finally:
                os.close(holder)
            holder = open_beneath(self._folder, "/".join(parts[:depth]), _FOLDER)
        return holder


def _remove(holder: int, last: str) -> None:
    try:
        facts = os.stat(last, dir_fd=holder, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            os.rmdir(last, dir_fd=holder)
        else:
            os.unlink(last, dir_fd=holder)
    except FileNotFoundError:
        return
