"""Which bytes did a call stand on? Each declared path of its program, under one digest.

A file is pinned by its bytes, a folder by the relative path and digest of each file or link below
it. A link counts with its target and is not followed; folders count only for what they hold.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apps.domain.entries import MAX_EXECUTION_PATHS
from apps.domain.words import shown

MAX_BYTES: Final = 1024 * 1024 * 1024
MAX_ENTRIES: Final = 10_000


class CannotPin(ValueError):
    """A path that has no digest, so that nothing of the call is run."""


@dataclass(frozen=True, slots=True)
class PinnedLink:
    """A symbolic link, which counts by where it points."""

    target: str


PinnedEntry = bytes | PinnedLink
Tree = Mapping[str, PinnedEntry]


def pin_paths(
    tree: Tree,
    paths: Iterable[str],
    *,
    max_bytes: int = MAX_BYTES,
    max_entries: int = MAX_ENTRIES,
) -> dict[str, str]:
    """Return the SHA-256 of each path of a tree, or raise `CannotPin`."""
    wanted = list(paths)
    if len(wanted) > MAX_EXECUTION_PATHS or len(set(wanted)) != len(wanted):
        raise CannotPin(f"At most {MAX_EXECUTION_PATHS} paths are pinned, each of them once.")
    budget = _Budget(max_bytes, max_entries)
    return {path: _pin(tree, path, budget) for path in wanted}


class _Budget:
    def __init__(self, max_bytes: int, max_entries: int) -> None:
        self._bytes = max_bytes
        self._entries = max_entries

    def take(self, path: str, entry: PinnedEntry) -> None:
        self._entries -= 1
        if self._entries < 0:
            raise CannotPin(f"{shown(path)} holds too many files to be pinned.")
        if isinstance(entry, bytes):
            self._bytes -= len(entry)
            if self._bytes < 0:
                raise CannotPin(f"{shown(path)} is too large to be pinned.")


def _pin(tree: Tree, path: str, budget: _Budget) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise CannotPin(f"{shown(path)} is not a plain path of the package.")
    entry = tree.get(path)
    if isinstance(entry, PinnedLink) or any(
        isinstance(tree.get(parent), PinnedLink) for parent in _parents(path)
    ):
        raise CannotPin(f"{shown(path)} is reached through a link.")
    if entry is not None:
        budget.take(path, entry)
        return hashlib.sha256(entry).hexdigest()
    below = sorted(_below(tree, path))
    if not below:
        raise CannotPin(f"{shown(path)} is not there.")
    whole = hashlib.sha256()
    for name, content in below:
        budget.take(f"{path}/{name}", content)
        kind, raw = (
            (b"L", content.target.encode()) if isinstance(content, PinnedLink) else (b"F", content)
        )
        encoded = name.encode()
        whole.update(len(encoded).to_bytes(8, "big") + encoded + kind)
        whole.update(hashlib.sha256(raw).digest())
    return whole.hexdigest()


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    for end in range(1, len(parts)):
        yield "/".join(parts[:end])


def _below(tree: Tree, path: str) -> Iterator[tuple[str, PinnedEntry]]:
    prefix = f"{path}/"
    for name, entry in tree.items():
        if name.startswith(prefix):
            yield name[len(prefix) :], entry
