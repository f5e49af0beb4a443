"""Say what is asked of a sandbox and what comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from apps.domain.egress import (
    NO_NETWORK,
    Crossing,
    Network,
)
from apps.domain.paths import BadPath, check_name, check_tree
from apps.sandboxd.limits import Clamp, Limits
from apps.sandboxd.runtimes import NAMES as RUNTIMES
from apps.sandboxd.workfiles import (
    MAX_WORK_BODY,
    BadWorkFiles,
    WorkChanges,
    WorkFile,
    check_work_files,
)

MAX_FILES: Final = 512
MAX_TREE_BYTES: Final = 16 * 1024 * 1024
MAX_STDIN_BYTES: Final = 16 * 1024 * 1024
MAX_ARGUMENTS: Final = 256
MAX_ARGUMENT_BYTES: Final = 64 * 1024
MAX_VARIABLES: Final = 64
MAX_OUTPUTS: Final = 64
MAX_OUTPUT_BYTES: Final = 32 * 1024 * 1024
MAX_CROSSINGS: Final = 256
MAX_DEADLINE_MS: Final = 24 * 3600 * 1000
MAX_JOB_BODY: Final = 3 * MAX_TREE_BYTES + MAX_STDIN_BYTES + MAX_WORK_BODY
MAX_REPLY_BODY: Final = MAX_OUTPUT_BYTES + MAX_WORK_BODY + 40 * 1024 * 1024

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")
_CORRELATION = re.compile(r"[A-Za-z0-9._:-]{0,64}\Z")
_DEPENDENCIES = re.compile(r"(?:[0-9a-f]{64})?\Z")
# The sandbox sets these itself, and a loader variable would change what the interpreter is.
_OWN_VARIABLES = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "PWD", "SHLVL", "IFS", "ENV"})
_OWN_PREFIXES = ("LD_", "PYTHON", "GLIBC_", "MALLOC_")


class BadJob(ValueError):
    """A job that no sandbox will run; the sentence says why."""


class Reason(StrEnum):
    """How a call ended. All but the last three are about the code that ran."""

    OK = "ok"
    EXIT = "exit"
    WALL_TIMEOUT = "wall_timeout"
    CPU_LIMIT = "cpu_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    TOO_MANY_FILES = "too_many_files"
    PROTOCOL_ERROR = "protocol_error"
    CANCELLED = "cancelled"
    DRIVER_UNAVAILABLE = "driver_unavailable"
    DRIVER_FAILED = "driver_failed"


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One program for one fresh sandbox: what to run, on which files, within which limits.

    `files` appear read-only under /package, `harness` under /kaizen and `shared`, the files that a
    program was given, under /shared. The name `python` in
    `argv` is the sandbox's own interpreter. `outputs` name files of /workspace to bring back.
    `runtimes` name what is bound at /runtime/<name> and put first on PATH, beside the bare Python.
    `workspace` are writable files that lie in /workspace at the start; with `keep_workspace`, what
    became of them comes back. A program that `waits` is its own gate: it starts before anything of
    the job but its `shape` has to be known, writes one dot when it is ready, and begins when it has
    read its variables, each NAME=VALUE and a NUL, with one more NUL after the last. Where its input
    ends without that it ends too.
    """

    argv: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...] = ()
    stdin: bytes = b""
    env: tuple[tuple[str, str], ...] = ()
    limits: Limits = field(default_factory=Limits)
    outputs: tuple[str, ...] = ()
    harness: tuple[tuple[str, bytes], ...] = ()
    correlation_id: str = ""
    runtimes: tuple[str, ...] = ()
    # The content address of an installed tree of the store, which appears at /node_modules.
    dependencies: str = ""
    workspace: tuple[WorkFile, ...] = ()
    keep_workspace: bool = False
    network: Network = NO_NETWORK
    shared: tuple[tuple[str, bytes], ...] = ()
    waits: bool = False

    def opening(self) -> bytes:
        """Return what comes before the input of a program and lets it begin."""
        if not self.waits:
            return b"\n"
        return "".join(f"{name}={value}\0" for name, value in self.variables()).encode() + b"\0"

    def variables(self) -> tuple[tuple[str, str], ...]:
        """Return what the environment of this job alone holds."""
        known = (("KAIZEN_CORRELATION_ID", self.correlation_id),) if self.correlation_id else ()
        return (*known, *self.env)

    def shape(self, limits: Limits) -> SandboxSpec:
        """Return all that has to be known before a sandbox that waits can be launched."""
        return replace(
            self,
            limits=limits,
            stdin=b"",
            env=(),
            outputs=(),
            correlation_id="",
            workspace=(),
            keep_workspace=False,
        )


@dataclass(frozen=True, slots=True)
class Output:
    """One declared output: its bytes, or the code of the refusal."""

    name: str
    content: bytes = b""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Stats:
    """What a call used. CPU and memory come from the kernel's accounting of the dead processes."""

    wall_ms: int = 0
    cpu_ms: int = 0
    max_rss_kib: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """Everything that came out of a sandbox; all bytes in it are untrusted."""

    reason: Reason
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    result: bytes = b""
    outputs: tuple[Output, ...] = ()
    stats: Stats = field(default_factory=Stats)
    clamped: tuple[Clamp, ...] = ()
    detail: str = ""
    python: str = ""
    workspace: WorkChanges | None = None
    crossings: tuple[Crossing, ...] = ()


def check_spec(spec: SandboxSpec) -> SandboxSpec:
    """Return the job unchanged when it may run, or refuse it with BadJob."""
    if not spec.argv or len(spec.argv) > MAX_ARGUMENTS:
        raise BadJob(f"A job has between 1 and {MAX_ARGUMENTS} arguments.")
    if any("\x00" in one or _size(one) > MAX_ARGUMENT_BYTES for one in spec.argv):
        raise BadJob(f"An argument holds a NUL or more than {MAX_ARGUMENT_BYTES} bytes.")
    if len(spec.stdin) > MAX_STDIN_BYTES:
        raise BadJob(f"The standard input has more than {MAX_STDIN_BYTES} bytes.")
    if len(spec.env) > MAX_VARIABLES:
        raise BadJob(f"A job sets at most {MAX_VARIABLES} variables.")
    for name, value in spec.env:
        if not _VARIABLE.match(name) or name in _OWN_VARIABLES or name.startswith(_OWN_PREFIXES):
            raise BadJob(f"The variable {name[:64]!r} cannot be set for a sandbox.")
        if "\x00" in value or _size(value) > MAX_ARGUMENT_BYTES:
            raise BadJob(f"The variable {name} holds a NUL or too many bytes.")
    if not set(spec.runtimes) <= set(RUNTIMES) or len(set(spec.runtimes)) != len(spec.runtimes):
        raise BadJob(f"The runtimes of a job are some of {', '.join(RUNTIMES)}, each once.")
    if not _CORRELATION.match(spec.correlation_id):
        raise BadJob("A correlation id has at most 64 letters, digits, or . _ : - signs.")
    if not _DEPENDENCIES.match(spec.dependencies):
        raise BadJob("Dependencies are named by 64 hex digits.")
    try:
        for tree in (spec.files, spec.harness, spec.shared):
            check_tree((name for name, _ in tree), max_files=MAX_FILES)
            if sum(len(content) for _, content in tree) > MAX_TREE_BYTES:
                raise BadJob(f"A tree has more than {MAX_TREE_BYTES} bytes.")
        check_work_files(spec.workspace)
    except (BadPath, BadWorkFiles) as problem:
        raise BadJob(str(problem)) from problem
    check_outputs(spec.outputs)
    return spec


def check_outputs(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of files to bring back unchanged, or refuse them with BadJob."""
    if len(names) > MAX_OUTPUTS:
        raise BadJob(f"A job names at most {MAX_OUTPUTS} outputs.")
    if len(set(names)) != len(names):
        raise BadJob("An output is named twice.")
    try:
        for name in names:
            check_name(name)
    except BadPath as problem:
        raise BadJob(str(problem)) from problem
    return names


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise BadJob("A text holds half of a surrogate pair.") from None
