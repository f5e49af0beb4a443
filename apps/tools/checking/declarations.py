"""Which declarations does a selection name, and what are their manifest and files?

Nothing is written, and nothing that a declaration brings is run or imported.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.db.models import F

from apps.domain.canonical import BadJson, strict_loads
from apps.domain.manifests import MAX_MANIFEST_BYTES
from apps.domain.packagetree import (
    MANIFEST_NAME,
    MAX_FILE_BYTES,
    MAX_FILES,
)
from apps.domain.problems import Problem
from apps.domain.words import shown
from apps.packages.models import PackageFile, PackageVersion
from apps.packages.selectors import read_tree
from apps.proposals.models import PackageProposal
from apps.proposals.selectors import current_receipt, draft_tree
from apps.tools.checking.selection import Selection

BUILTIN: Final = "builtin"
MAX_ENTRIES: Final = 10_000
# Declarations of another product, whose sessions and tools for people we do not have.
FOREIGN_SUFFIX: Final = ".artf"
_SKIPPED: Final = frozenset({".git", ".venv", "node_modules", "__pycache__", "var"})


class NotFound(LookupError):
    """A selector that names nothing."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A manifest with its files, wherever it lies, or our own tools."""

    selector: str
    kind: str
    manifest: Any = None
    files: dict[str, bytes] = field(default_factory=dict)
    # What was recorded when it was stored: the hash of its files, where there is one.
    recorded_hash: str = ""
    problems: tuple[Problem, ...] = ()
    # Whether it belongs to this deployment, and so has to be able to run here.
    deployed: bool = True
    # Where it lies on this machine, if it does.
    folder: Path | None = None


def declarations_of(selection: Selection) -> Iterator[Declaration]:
    """Yield what a selection names, or raise `NotFound`."""
    if selection.selector:
        yield _selected(selection.selector, selection.repo)
    elif selection.artifact:
        yield _artifact(selection.artifact, selection.repo)
    elif selection.repo is not None:
        yield from _in_folders(selection.repo)
    else:
        yield Declaration(BUILTIN, BUILTIN)
        for version in _active_versions():
            yield _admitted(version)


def _selected(selector: str, repo: Path | None) -> Declaration:
    kind, _, rest = selector.partition(":")
    if selector == BUILTIN:
        return Declaration(BUILTIN, BUILTIN)
    if kind == "package" and rest:
        return _package(rest)
    if kind == "proposal" and rest:
        return _proposal(rest)
    root = Path.cwd() if repo is None else repo
    return _folder(root / (rest if kind == "dir" and rest else selector), selector)


def _artifact(name: str, repo: Path | None) -> Declaration:
    if repo is None:
        return Declaration(BUILTIN, BUILTIN) if name == BUILTIN else _package(name)
    for found in _in_folders(repo):
        if isinstance(found.manifest, dict) and name in (
            found.manifest.get("name"),
            found.manifest.get("ref"),
        ):
            return found
    raise NotFound(f"No manifest here declares {shown(name)}.")


def _active_versions() -> Iterator[PackageVersion]:
    active = PackageVersion.objects.filter(pk=F("package__active_version_id"))
    yield from active.filter(package__disabled_at=None).order_by("ref")


def _package(name: str) -> Declaration:
    versions = PackageVersion.objects.filter(ref=name)
    if "@" not in name:
        versions = PackageVersion.objects.filter(
            package__name=name, pk=F("package__active_version_id")
        )
    version = versions.first()
    if version is None:
        raise NotFound(f"No admitted package is called {shown(name)}.")
    return _admitted(version)


def _admitted(version: PackageVersion) -> Declaration:
    pairs = PackageFile.objects.filter(version=version).order_by("path")
    return Declaration(
        f"package:{version.ref}",
        "package",
        manifest=version.manifest,
        files=read_tree(pairs.values_list("path", "blob_id")),
        recorded_hash=version.artifact_hash,
    )


def _proposal(given: str) -> Declaration:
    try:
        found = PackageProposal.objects.filter(pk=uuid.UUID(given)).first()
    except ValueError:
        found = None
    if found is None:
        raise NotFound(f"No proposal has the id {shown(given)}.")
    untested = Problem("", "receipt", "No passed test stands for these bytes and this manifest.")
    return Declaration(
        f"proposal:{found.pk}",
        "proposal",
        manifest=found.manifest,
        files=draft_tree(found),
        recorded_hash=found.artifact_hash,
        problems=() if current_receipt(found) is not None else (untested,),
    )


def _in_folders(root: Path) -> Iterator[Declaration]:
    found = [place.parent for place in _walk(root) if place.name == MANIFEST_NAME]
    if not found:
        raise NotFound(f"There is no {MANIFEST_NAME} here.")
    for folder in sorted(found):
        yield _folder(folder, str(folder.relative_to(root)))


def _folder(folder: Path, selector: str) -> Declaration:
    if not folder.is_dir():
        raise NotFound(f"{shown(selector)} names no directory and no declaration that we know.")
    problems: list[Problem] = []
    foreign = sorted(place.name for place in folder.glob(f"*{FOREIGN_SUFFIX}"))
    for name in foreign:
        message = (
            "Declarations of this kind, with sessions and tools for people, are not supported."
        )
        problems.append(Problem(name, "unsupported", message))
    manifest, text = None, _read(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
    if text is None:
        if not foreign:
            raise NotFound(f"{shown(selector)} has no {MANIFEST_NAME} of at most 512 KiB.")
    else:
        try:
            manifest = strict_loads(text, max_bytes=MAX_MANIFEST_BYTES)
        except BadJson as refusal:
            problems.append(Problem(MANIFEST_NAME, "json", refusal.message))
    files, unread = _tree(folder)
    return Declaration(
        f"dir:{selector}",
        "directory",
        manifest=manifest,
        files=files,
        problems=(*problems, *unread),
        deployed=False,
        folder=folder,
    )


def _tree(folder: Path) -> tuple[dict[str, bytes], list[Problem]]:
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for place in _walk(folder):
        path = place.relative_to(folder).as_posix()
        if path == MANIFEST_NAME:
            continue
        # One more than may be, so that the rules of the tree say so themselves.
        if len(files) > MAX_FILES:
            break
        content = _read(place, MAX_FILE_BYTES)
        if content is None:
            problems.append(Problem(path, "file", "It is not a plain file, or it is too large."))
        else:
            files[path] = content
    return files, problems


def _walk(root: Path) -> Iterator[Path]:
    """Yield the files below a folder without following a link, up to a bound."""
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(names):
            seen += 1
            if seen > MAX_ENTRIES:
                return
            yield Path(folder, name)


def _read(place: Path, most: int) -> bytes | None:
    """Return the bytes of a plain file that is not reached through a link, within its bound."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None
