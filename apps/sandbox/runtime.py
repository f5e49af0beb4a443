"""Provide the Python that sandboxes run, readable for them wherever this clone lies.

An interpreter under /usr is inside every sandbox already. Any other one (under somebody's home,
under a folder that only root may enter, with packages installed beside it) is copied once:
program, standard library and the libraries that it brought along, and nothing installed later.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.sandbox.elf import NotElf, read_dynamic, retarget

# Changing what is copied, or how, makes every earlier copy a different one.
_LAYOUT: Final = "1"
_LEFT_OUT: Final = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "tkinter",
     "lib2to3", "ensurepip", "pydoc_data"}
)  # fmt: skip
_TRIAL: Final = "import encodings, json, unittest, ctypes, hashlib, zlib, socket, asyncio"


class NoRuntime(RuntimeError):
    """No Python can be provided for the sandbox; the sentence is for the operator."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The interpreter to give the supervisor, and its version."""

    executable: Path
    version: str
    copied: bool


def provision_runtime(target: Path) -> Runtime:
    """Return a Python that sandboxes can run, copying the running one below `target` if needed.

    A link named `python` in `target` points to it, so the folder is as good as the program for
    the supervisor's --runtime.
    """
    runtime = _provide(target.absolute())
    target.mkdir(parents=True, exist_ok=True)
    link = target / "python"
    if not link.is_symlink() or link.readlink() != runtime.executable:
        draft = target / f".python-{os.getpid()}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(runtime.executable)
        draft.replace(link)
    return runtime


def _provide(target: Path) -> Runtime:
    prefix = Path(sys.base_prefix).resolve()
    program = _program(prefix)
    version = ".".join(str(part) for part in sys.version_info[:3])
    if Path("/usr") in program.parents:
        if not _readable_by_all(program) or not _readable_by_all(_library(prefix)):
            raise NoRuntime(f"{program} is not readable for every user, as sandboxes need it.")
        return Runtime(program, version, copied=False)
    place = target / f"cpython-{version}-{_stamp(program, prefix)}"
    executable = place / "bin" / program.name
    if not executable.is_file():
        _publish(program, prefix, place)
    if os.geteuid() == 0 and not _readable_by_all(executable):
        raise NoRuntime(
            f"Sandbox users cannot reach {target}; name a folder that every user may enter."
        )
    return Runtime(executable, version, copied=True)


def _program(prefix: Path) -> Path:
    """Return the real interpreter, not the link or the launcher of an environment."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (Path(sys.base_prefix) / "bin" / name, Path(os.path.realpath(sys.executable))):
        real = candidate.resolve()
        if real.is_file() and prefix in real.parents:
            return real
    raise NoRuntime(f"The interpreter of {prefix} was not found.")


def _library(prefix: Path) -> Path:
    """Return the folder of the standard library that belongs to a prefix."""
    found = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(prefix)})).resolve()
    if not (found / "os.py").is_file():
        raise NoRuntime(f"The standard library of {prefix} was not found.")
    return found


def _stamp(program: Path, prefix: Path) -> str:
    """Name the copy after what it was made of; looking is cheap, so this runs at every start."""
    library = _library(prefix)
    facts = [_LAYOUT, sys.version, str(program)]
    for one in (program, library, library / "os.py", library / "lib-dynload"):
        if one.exists():
            seen = one.stat()
            facts.append(f"{seen.st_size}:{seen.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _readable_by_all(path: Path) -> bool:
    real = path.resolve()
    modes = [one.stat().st_mode for one in real.parents]
    return bool(real.stat().st_mode & stat.S_IROTH) and all(m & stat.S_IXOTH for m in modes)


def _publish(program: Path, prefix: Path, place: Path) -> None:
    """Make the copy beside its place and move it there whole, so a half one is never used."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".runtime-", dir=place.parent))
    try:
        _copy(program, prefix, draft)
        _try(draft / "bin" / program.name)
        draft.rename(place)
    except OSError as problem:
        # Another start may have been first with the same copy.
        if not (place / "bin" / program.name).is_file():
            raise NoRuntime(f"The sandbox's Python could not be copied: {problem}.") from problem
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy(program: Path, prefix: Path, draft: Path) -> None:
    library = _library(prefix)
    target = draft / library.relative_to(prefix)

    def left_out(folder: str, names: list[str]) -> list[str]:
        top = Path(folder) == library
        return [
            name
            for name in names
            if (top and (name in _LEFT_OUT or name.startswith("config-")))
            or name.endswith((".opt-1.pyc", ".opt-2.pyc", ".a"))
        ]

    shutil.copytree(library, target, ignore=left_out)
    (draft / "bin").mkdir()
    copy = draft / "bin" / program.name
    shutil.copy2(program, copy)
    _bring_libraries([copy, *target.glob("lib-dynload/*.so")], prefix, draft)
    for one in (draft, *draft.rglob("*")):
        if not one.is_symlink():
            one.chmod(0o755 if one.is_dir() or one.parent.name == "bin" else 0o644)


def _bring_libraries(files: list[Path], prefix: Path, draft: Path) -> None:
    """Copy the libraries of the prefix that these files need, and let all of them be found."""
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        try:
            needed = read_dynamic(file.read_bytes()).needed
        except NotElf:
            continue
        for name in needed:
            source, copy = prefix / "lib" / name, draft / "lib" / name
            if source.is_file() and not copy.exists():
                shutil.copy2(source.resolve(), copy)
                waiting.append(copy)
        # Every copy finds the folder of libraries from where it lies itself.
        way = os.path.relpath(draft / "lib", file.parent)
        if not retarget(file, prefix, "$ORIGIN" if way == "." else f"$ORIGIN/{way}"):
            raise NoRuntime(
                f"The Python in {prefix} cannot be copied for the sandbox, because its path is "
                "too short to be replaced; use an interpreter from another place."
            )


def _try(executable: Path) -> None:
    """Start the copy once before it is used."""
    try:
        subprocess.run(
            [str(executable), "-I", "-S", "-c", _TRIAL],
            env={}, cwd="/", check=True, capture_output=True, timeout=60,
        )  # fmt: skip
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NoRuntime(
            f"The copied Python does not start: {said[-1][:300] if said else ''}"
        ) from None
    except subprocess.TimeoutExpired:
        raise NoRuntime("The copied Python does not start in time.") from None
