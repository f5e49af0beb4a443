"""Where do the bytes of a scope come from? From a tree in memory, or from whoever opens a folder.

A tree of an admitted package is a mapping of names to bytes that never changes: there is nothing to
follow, to race with or to leave. A folder on a disk is opened elsewhere, under the same words.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Protocol

from apps.domain.filescope.paths import NotThere, ScopeError

MAX_FOLDER_ENTRIES: Final = 10_000


class EntryKind(StrEnum):
    """What a name in a folder is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


class Files(Protocol):
    """Files under physical names, relative to one root; the root itself has the empty name."""

    def kind(self, path: str) -> EntryKind | None:
        """Return what a name is, following nothing, or None where nothing is."""

    def entries(self, folder: str) -> dict[str, EntryKind]:
        """Return what is in a folder, or raise `ScopeError`."""

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a plain file in pieces, or raise `ScopeError`."""


class TreeFiles:
    """The files of a tree in memory."""

    def __init__(self, tree: Mapping[str, bytes]) -> None:
        self._tree = tree
        self._folders: dict[str, dict[str, EntryKind]] = {"": {}}
        for path in tree:
            parts = path.split("/")
            for end in range(len(parts)):
                folder = self._folders.setdefault("/".join(parts[:end]), {})
                last = end == len(parts) - 1
                folder[parts[end]] = EntryKind.FILE if last else EntryKind.DIRECTORY

    def kind(self, path: str) -> EntryKind | None:
        """Return what a name is, or None where nothing is."""
        if path in self._folders:
            return EntryKind.DIRECTORY
        return EntryKind.FILE if path in self._tree else None

    def entries(self, folder: str) -> dict[str, EntryKind]:
        """Return what is in a folder, or raise `ScopeError`."""
        found = self._folders.get(folder)
        if found is None:
            raise NotThere("There is no such folder.")
        if len(found) > MAX_FOLDER_ENTRIES:
            raise ScopeError(f"A folder holds more than {MAX_FOLDER_ENTRIES:,} entries.")
        return found

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file, or raise `ScopeError`."""
        content = self._tree.get(path)
        if content is None:
            raise NotThere("There is no such file.")
        yield content


def whole(files: Files, path: str, most: int) -> bytes | None:
    """Return the bytes of a file, or None where it has more than so many."""
    found = bytearray()
    for chunk in files.chunks(path):
        found += chunk
        if len(found) > most:
            return None
    return bytes(found)
