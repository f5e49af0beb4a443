"""Look at a folder of a disk as it lies, one name below the other, following nothing.

The folder is opened once and stays pinned by its descriptor. Every part of a name is opened below
the part before, so that whatever is moved or replaced meanwhile, nothing leads out of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from apps.domain.filescope.files import MAX_FOLDER_ENTRIES, EntryKind
from apps.domain.filescope.paths import NotThere, ScopeError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK: Final = 256 * 1024


class FolderFiles:
    """The files below one folder; use it as a context, which lets go of the folder."""

    def __init__(self, folder: Path) -> None:
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> FolderFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the folder."""
        os.close(self._root)

    def kind(self, path: str) -> EntryKind | None:
        """Return what a name is, following nothing, or None where nothing is."""
        if not path:
            return EntryKind.DIRECTORY
        try:
            with self._above(path) as (folder, name):
                return _kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except (NotThere, OSError):
            return None

    def entries(self, folder: str) -> dict[str, EntryKind]:
        """Return what is in a folder, or raise `ScopeError`."""
        found: dict[str, EntryKind] = {}
        with self._folder(folder) as opened, os.scandir(opened) as listed:
            for entry in listed:
                if len(found) >= MAX_FOLDER_ENTRIES:
                    raise ScopeError(f"A folder holds more than {MAX_FOLDER_ENTRIES:,} entries.")
                name = os.fsencode(entry.name).decode("utf-8", "replace")
                found[name] = _kind_of(entry.stat(follow_symlinks=False).st_mode)
        return found

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a plain file in pieces, or raise `ScopeError`."""
        with self._above(path) as (folder, name):
            try:
                opened = os.open(name, _FILE, dir_fd=folder)
            except OSError:
                raise NotThere("There is no such file, or it is a link.") from None
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise NotThere("It is no plain file.")
            while chunk := file.read(_CHUNK):
                yield chunk

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        folder, _, name = path.rpartition("/")
        with self._folder(folder) as opened:
            yield opened, name

    @contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        opened = os.dup(self._root)
        try:
            for part in path.split("/") if path else ():
                try:
                    inner = os.open(part, _FOLDER, dir_fd=opened)
                except OSError:
                    raise NotThere("There is no such folder, or it is a link.") from None
                os.close(opened)
                opened = inner
            yield opened
        finally:
            os.close(opened)


def _kind_of(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.SYMLINK if stat.S_ISLNK(mode) else EntryKind.OTHER
