"""Where do installed dependencies lie? In one folder for each content address, never changed.

A tree appears whole, by one rename, or not at all, also when the machine dies: all of it is on the
disk before it has its name. Two that want the same one wait for each other, across processes.
What no package needs any more is thrown away once it has rested for a while, and never between
somebody's look at it and their use of it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings

from apps.domain.tarballs import PackedFile
from apps.sandboxd.layout import DEPENDENCIES_FOLDER

MAX_TREE_BYTES: Final = 512 * 1024 * 1024
MAX_TREE_FILES: Final = 60_000
REST_SECONDS: Final = 3_600
"""A tree that was used within this time is kept, whoever says that nobody needs it."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_DRAFT: Final = ".draft-"
_LOCK: Final = ".lock-"
_USE: Final = ".use-"
_SYNCS: Final = 16
_POLL_SECONDS: Final = 0.05


class StoreFull(ValueError):
    """A tree that is larger than any may be."""


class StillInstalling(TimeoutError):
    """Another installer of the same tree did not finish in time."""


@dataclass(frozen=True, slots=True)
class Store:
    """Installed trees: those that are made here, and those that came with the deployment."""

    folder: Path
    bundled: Path | None = None
    pinned: frozenset[str] = frozenset()
    """The trees that came with the deployment, by content address: never installed here."""

    def has(self, digest: str) -> bool:
        """Tell whether a tree is there, and note that it was wanted."""
        if digest in self.pinned:
            place = self.bundled
            return place is not None and (place / digest / DEPENDENCIES_FOLDER).is_dir()
        place = self.folder / digest
        if not (place / DEPENDENCIES_FOLDER).is_dir():
            return False
        # Whoever collects looks and removes while nobody notes a use, and the other way round.
        with self._lock(f"{_USE}{digest}", fcntl.LOCK_SH):
            if not (place / DEPENDENCIES_FOLDER).is_dir():
                return False
            os.utime(place)
            return True

    @contextmanager
    def alone(self, digest: str, *, until: float) -> Iterator[None]:
        """Hold the one right to make a tree; whoever comes second waits."""
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        held = ExitStack()
        while True:
            try:
                held.enter_context(self._lock(f"{_LOCK}{digest}", fcntl.LOCK_EX | fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise StillInstalling from None
                time.sleep(_POLL_SECONDS)
        with held:
            yield

    @contextmanager
    def _lock(self, name: str, kind: int) -> Iterator[None]:
        """Hold a lock of the store by its name; its file may be removed by whoever holds it."""
        path = self.folder / name
        while True:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(number, kind)
                if _is_still(path, number):
                    yield
                    return
            finally:
                os.close(number)

    @contextmanager
    def draft(self, digest: str) -> Iterator[Draft]:
        """Make a tree beside the others; it is published when the block ends well."""
        if not _DIGEST.match(digest):
            raise ValueError("A tree is named by the hex of its content address.")
        home = Path(tempfile.mkdtemp(prefix=f"{_DRAFT}{digest[:12]}-", dir=self.folder))
        try:
            home.chmod(0o755)
            inside = home / DEPENDENCIES_FOLDER
            inside.mkdir(mode=0o755)
            inside.chmod(0o755)
            yield Draft(inside)
            _bring_to_disk(home)
            try:
                home.rename(self.folder / digest)
            except OSError:
                # Somebody else was first with the same tree; anything else is a failure.
                if not (self.folder / digest / DEPENDENCIES_FOLDER).is_dir():
                    raise
            _sync(self.folder)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def collect(
        self, needed: Callable[[], Collection[str]], *, now: Callable[[], float] = time.time
    ) -> int:
        """Remove trees that nobody needs and that have rested; return how many.

        What is needed is asked once for all, and once more for a tree that is about to go: by then
        somebody may have come to need it.
        """
        removed = 0
        known = needed()
        for place in self._places():
            if place.name.startswith(_DRAFT):
                # Of an installer that died; one that works is younger.
                if _has_rested(place, now()):
                    shutil.rmtree(place, ignore_errors=True)
                    removed += 1
            elif _DIGEST.match(place.name) and place.name not in known:
                removed += _has_rested(place, now()) and self._remove(place, needed, now)
        return removed

    def _remove(
        self, place: Path, needed: Callable[[], Collection[str]], now: Callable[[], float]
    ) -> bool:
        """Remove one tree, unless it came to be used or needed; nobody finds half of it."""
        digest = place.name
        doomed = self.folder / f"{_DRAFT}doomed-{digest[-12:]}-{time.monotonic_ns()}"
        try:
            with self._lock(f"{_USE}{digest}", fcntl.LOCK_EX | fcntl.LOCK_NB):
                if digest in needed() or not _has_rested(place, now()):
                    return False
                place.rename(doomed)
                (self.folder / f"{_USE}{digest}").unlink(missing_ok=True)
        except BlockingIOError:
            # It is being used right now.
            return False
        installing = f"{_LOCK}{digest}"
        with suppress(BlockingIOError), self._lock(installing, fcntl.LOCK_EX | fcntl.LOCK_NB):
            (self.folder / installing).unlink(missing_ok=True)
        shutil.rmtree(doomed, ignore_errors=True)
        return True

    def _places(self) -> Iterable[Path]:
        try:
            return [Path(entry.path) for entry in os.scandir(self.folder) if entry.is_dir()]
        except FileNotFoundError:
            return []


def _is_still(path: Path, number: int) -> bool:
    """Tell whether an open file is the one that its name stands for."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(number))
    except FileNotFoundError:
        return False


def _has_rested(place: Path, now: float) -> bool:
    try:
        return now - place.stat().st_mtime >= REST_SECONDS
    except FileNotFoundError:
        return False


def _bring_to_disk(home: Path) -> None:
    """Wait until a tree would survive the machine: each file and folder, many at once.

    A disk that is asked for many together writes them together, which costs a fraction.
    """
    places = [home]
    for folder, folders, files in os.walk(home):
        places += [Path(folder, name) for name in (*folders, *files)]
    with ThreadPoolExecutor(_SYNCS) as pool:
        for _ in pool.map(_sync, places):
            pass


def _sync(place: Path) -> None:
    number = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Draft:
    """A tree in the making, with its bounds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes = 0
        self._files = 0

    def add(self, place: str, files: Iterable[PackedFile]) -> None:
        """Write the files of one package to its place, which begins with node_modules/."""
        _, _, below = place.partition("/")
        for file in files:
            self._bytes += len(file.content)
            self._files += 1
            if self._bytes > MAX_TREE_BYTES or self._files > MAX_TREE_FILES:
                raise StoreFull(
                    f"The dependencies have more than {MAX_TREE_FILES:,} files or"
                    f" {MAX_TREE_BYTES:,} bytes."
                )
            self._write(f"{below}/{file.path}", file)

    def _write(self, path: str, file: PackedFile) -> None:
        folder = self._folder
        *folders, name = path.split("/")
        for part in folders:
            folder = folder / part
            with suppress(FileExistsError):
                folder.mkdir()
                folder.chmod(0o755)
        mode = 0o555 if file.executable else 0o444
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(folder / name, flags, mode), "wb") as opened:
            os.fchmod(opened.fileno(), mode)
            opened.write(file.content)


PINS: Final = Path(__file__).with_name("pins") / "bundled.txt"


def the_store() -> Store:
    """Return the store of this machine, as the settings and the pins say."""
    bundled: str = settings.KAIZEN_BUNDLED_DEPENDENCIES
    return Store(
        Path(settings.KAIZEN_DEPENDENCIES_DIR),
        Path(bundled) if bundled else None,
        read_pins(PINS.read_text()),
    )


def read_pins(text: str) -> frozenset[str]:
    """Read which trees are bundled: one content address a line, words after # are for people."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pins = frozenset(line for line in lines if line)
    if wrong := next((one for one in pins if not _DIGEST.match(one)), None):
        raise ValueError(f"{wrong[:80]!r} is no content address of bundled dependencies.")
    return pins
