"""Install the pinned runtimes of sandboxes: each once for its lock, whole or not at all.

They lie in a store under a digest of what they were made from, and links point to them. Packages
come through the package installers alone. What cannot be installed is said in one sentence and
left out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.sandbox.installers import INSTALLERS, Materials, NotInstalled
from apps.sandbox.runtime import provision_runtime
from apps.sandboxd.layout import Runtime
from apps.sandboxd.runtimes import NAMES, NODE

# Changing how a runtime is made makes every earlier one a different one.
_LAYOUT: Final = "1"


@dataclass(frozen=True, slots=True)
class Provided:
    """Where the Python lies, which runtimes stand beside it, and why the others do not."""

    python: Path
    runtimes: tuple[str, ...]
    problems: tuple[str, ...]


def provide(links: Path, store: Path, *, install: bool = True) -> Provided:
    """Give sandboxes a Python and the pinned runtimes; with `install` off, only what is there.

    Raises NoRuntime where not even a Python can be provided.
    """
    executable = provision_runtime(links).executable
    materials = Materials(python=executable, inside=Runtime(executable).inside)
    ready: list[str] = []
    problems: list[str] = []
    for name in NAMES:
        place = store / f"{name}-{_digest(name, materials)}"
        try:
            if install and not place.is_dir():
                _install(name, materials, place)
        except (NotInstalled, OSError) as problem:
            problems.append(f"The {name} runtime could not be installed: {problem}")
        if place.is_dir():
            _point(links / name, place)
            ready.append(name)
            if name == NODE:
                materials = Materials(executable, materials.inside, place)
        else:
            # A link to what another lock made would be a runtime that nobody pinned.
            (links / name).unlink(missing_ok=True)
            if not install:
                problems.append(f"The {name} runtime is not installed: run `make venv`.")
    return Provided(executable, tuple(ready), tuple(problems))


def _digest(name: str, materials: Materials) -> str:
    """Name a runtime after everything that it is made from."""
    installer = INSTALLERS[name]
    facts = [_LAYOUT.encode(), name.encode(), platform.machine().encode()]
    facts += [lock.read_bytes() for lock in installer.locks]
    if installer.for_python:
        facts += [sys.version.encode(), materials.inside.encode()]
    return hashlib.sha256(b"\0".join(facts)).hexdigest()[:16]


def _install(name: str, materials: Materials, place: Path) -> None:
    """Install beside the place and move there whole, so that a half one is never used."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone(place.parent / f".{name}.lock"):
        if place.is_dir():
            return  # another start was first
        sys.stderr.write(f"Installing the {name} runtime of the sandbox, once for its lock.\n")
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=place.parent))
        try:
            INSTALLERS[name].install(materials, draft)
            _open_to_all(draft)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _open_to_all(tree: Path) -> None:
    """Let every user read the tree and nobody but us write it, whatever our umask is."""
    for one in (tree, *tree.rglob("*")):
        if not one.is_symlink():
            runs = one.is_dir() or one.stat().st_mode & 0o100
            one.chmod(0o755 if runs else 0o644)


def _point(link: Path, place: Path) -> None:
    if link.is_symlink() and link.readlink() == place:
        return
    draft = link.with_name(f".{link.name}-{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(place)
    draft.replace(link)
