"""What is started for a program that an agent wrote, in which language, and within which limits?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from apps.domain.paths import BadPath, check_tree
from apps.sandbox.spec import Limits
from apps.sandboxd.runtimes import NODE, OFFICE

MAX_CODE: Final = 100_000
"""Characters of one program."""
MAX_TARGETS: Final = 16
MAX_TARGET: Final = 200
"""Characters of a file's name, its folders included."""

LIMITS: Final = Limits(
    wall_ms=110_000,
    cpu_ms=100_000,
    memory_mb=1024,
    workspace_mb=192,
    tmp_mb=128,
    max_files=10_000,
    stdout_keep_kib=64,
    stderr_keep_kib=64,
)
_LAUNCHER: Final = Path(__file__).parents[1] / "harness" / "run_program.py"


class Language(StrEnum):
    """What a program is written in."""

    PYTHON = "python"
    NODE = "node"
    BASH = "bash"


class BadTarget(ValueError):
    """The names of the files to come cannot stand; the sentence says which and why."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a program is started: what, with which files beside it, and in which runtime."""

    argv: tuple[str, ...]
    runtimes: tuple[str, ...] = ()
    harness: tuple[tuple[str, bytes], ...] = ()
    stdin: bytes = b""
    waits: bool = False


def start_of(language: Language, code: str, *, runtimes: Collection[str]) -> Start:
    """Return how a program is started. Everything starts in the workspace.

    Python has the document libraries where they are installed; without them it is the bare one.
    """
    written = code.encode("utf-8", "surrogatepass")
    office = (OFFICE,) if OFFICE in runtimes else ()
    match language:
        case Language.PYTHON:
            return Start(
                # Without the site module, which is slow to set up; the launcher stands in for it.
                argv=("python", "-I", "-S", "-u", "-B", "/kaizen/run_program.py"),
                runtimes=office,
                harness=(("run_program.py", _launcher()),),
                # The launcher starts before its program is known, and reads it from its input.
                stdin=written,
                waits=True,
            )
        case Language.NODE:
            # Read from its input, a program finds its modules beside it in the workspace.
            return Start(argv=("node", "-"), runtimes=(NODE,), stdin=written)
        case Language.BASH:
            return Start(
                argv=("bash", "/kaizen/program.sh"),
                runtimes=office,
                harness=(("program.sh", written),),
            )


@cache
def _launcher() -> bytes:
    return _LAUNCHER.read_bytes()


def check_targets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the files to come, or refuse them with BadTarget."""
    long = [name for name in names if len(name) > MAX_TARGET]
    if len(names) > MAX_TARGETS or long:
        raise BadTarget(
            f"artifact_targets holds at most {MAX_TARGETS} names of at most {MAX_TARGET}"
            " characters."
        )
    try:
        return tuple(check_tree(names, max_files=MAX_TARGETS))
    except BadPath as problem:
        raise BadTarget(f"artifact_targets: {problem}") from problem
