"""Say what is asked of a sandbox and what comes back, and how both travel over the socket."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from apps.domain.egress import (
    NO_NETWORK,
    BadNetwork,
    Crossing,
    Network,
    network_fields,
    read_network,
)
from apps.domain.paths import BadPath, check_name, check_tree
from apps.domain.wire import BadFrame, JsonValue, Message
from apps.sandboxd.limits import BadLimit, Clamp, Limits, read_limits
from apps.sandboxd.runtimes import NAMES as RUNTIMES
from apps.sandboxd.workfiles import (
    MAX_WORK_BODY,
    BadWorkFiles,
    WorkChanges,
    WorkFile,
    bodies_of,
    change_bodies,
    change_fields,
    check_work_files,
    read_changes,
    read_files,
    rows_of,
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
    became of them comes back.
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


def encode_job(spec: SandboxSpec, *, deadline_ms: int) -> Message:
    """Write a job as a message; `deadline_ms` bounds the wait for a free sandbox and the run."""
    check_spec(spec)
    blobs = [spec.stdin, *(c for _, c in spec.files), *(c for _, c in spec.harness)]
    blobs += [*bodies_of(spec.workspace), *(c for _, c in spec.shared)]
    return Message(
        kind="job",
        fields={
            "argv": list(spec.argv),
            "env": [[name, value] for name, value in spec.env],
            "stdin": len(spec.stdin),
            "files": [[name, len(content)] for name, content in spec.files],
            "harness": [[name, len(content)] for name, content in spec.harness],
            "limits": dict(asdict(spec.limits)),
            "outputs": list(spec.outputs),
            "correlation_id": spec.correlation_id,
            "runtimes": list(spec.runtimes),
            "dependencies": spec.dependencies,
            "network": network_fields(spec.network),
            "deadline_ms": deadline_ms,
            "workspace": rows_of(spec.workspace),
            "keep_workspace": spec.keep_workspace,
            "shared": [[name, len(content)] for name, content in spec.shared],
        },
        body=b"".join(blobs),
    )


class MessageFields:
    """Read the fields of one message: all known, each of its type, none left over."""

    def __init__(self, message: Message) -> None:
        self._fields = dict(message.fields)
        self._body = memoryview(message.body)

    def text(self, name: str) -> str:
        return _text(self._fields.pop(name, None), name)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(one, name) for one in self.rows(name))

    def yes(self, name: str) -> bool:
        value = self._fields.pop(name, None)
        if not isinstance(value, bool):
            raise BadFrame(f"The field {name} is not true or false.")
        return value

    def anything(self, name: str) -> JsonValue:
        return self._fields.pop(name, None)

    def whole(self, name: str) -> int:
        return _whole(self._fields.pop(name, None), name)

    def optional_whole(self, name: str) -> int | None:
        value = self._fields.pop(name, None)
        return None if value is None else _whole(value, name)

    def mapping(self, name: str) -> dict[str, JsonValue]:
        value = self._fields.pop(name, None)
        if not isinstance(value, dict):
            raise BadFrame(f"The field {name} is not an object.")
        return value

    def rows(self, name: str) -> list[JsonValue]:
        value = self._fields.pop(name, None)
        if not isinstance(value, list):
            raise BadFrame(f"The field {name} is not a list.")
        return value

    def pairs(self, name: str) -> list[tuple[str, JsonValue]]:
        found: list[tuple[str, JsonValue]] = []
        for row in self.rows(name):
            if not isinstance(row, list) or len(row) != 2:
                raise BadFrame(f"The field {name} does not hold pairs.")
            found.append((_text(row[0], name), row[1]))
        return found

    def take(self, size: int) -> bytes:
        if size > len(self._body):
            raise BadFrame("The body is shorter than the header says.")
        taken, self._body = bytes(self._body[:size]), self._body[size:]
        return taken

    def done(self) -> None:
        if self._fields:
            raise BadFrame(f"Unknown field {min(self._fields)[:40]!r}.")
        if len(self._body):
            raise BadFrame("The body is longer than the header says.")


def _text(value: JsonValue, name: str) -> str:
    if not isinstance(value, str):
        raise BadFrame(f"The field {name} does not hold text.")
    return value


def _whole(value: JsonValue, name: str) -> int:
    if type(value) is not int or value < 0:
        raise BadFrame(f"The field {name} is not a whole number.")
    return value


def decode_job(message: Message) -> tuple[SandboxSpec, int]:
    """Read a job and its deadline in milliseconds, or refuse it with BadFrame or BadJob."""
    read = MessageFields(message)
    stdin_size = read.whole("stdin")
    file_sizes = [(name, _whole(size, "files")) for name, size in read.pairs("files")]
    harness_sizes = [(name, _whole(size, "harness")) for name, size in read.pairs("harness")]
    shared_sizes = [(name, _whole(size, "shared")) for name, size in read.pairs("shared")]
    deadline_ms = read.whole("deadline_ms")
    if not 0 < deadline_ms <= MAX_DEADLINE_MS:
        raise BadJob("The deadline is not within one day.")
    try:
        limits = read_limits(read.mapping("limits"))
        network = read_network(read.mapping("network"))
    except (BadLimit, BadNetwork) as problem:
        raise BadJob(str(problem)) from problem
    spec = SandboxSpec(
        argv=read.texts("argv"),
        env=tuple((name, _text(value, "env")) for name, value in read.pairs("env")),
        limits=limits,
        outputs=read.texts("outputs"),
        correlation_id=read.text("correlation_id"),
        runtimes=read.texts("runtimes"),
        dependencies=read.text("dependencies"),
        network=network,
        stdin=read.take(stdin_size),
        files=tuple((name, read.take(size)) for name, size in file_sizes),
        harness=tuple((name, read.take(size)) for name, size in harness_sizes),
        workspace=read_files(read.rows("workspace"), read.take),
        keep_workspace=read.yes("keep_workspace"),
        shared=tuple((name, read.take(size)) for name, size in shared_sizes),
    )
    read.done()
    return check_spec(spec), deadline_ms


def encode_result(result: SandboxResult) -> Message:
    """Write a result as the last message of a job."""
    contents: Sequence[bytes] = [one.content for one in result.outputs]
    return Message(
        kind="result",
        fields={
            "reason": result.reason.value,
            "exit_code": result.exit_code,
            "stdout": len(result.stdout),
            "stderr": len(result.stderr),
            "result": len(result.result),
            "outputs": [[one.name, [len(one.content), one.refused]] for one in result.outputs],
            "stats": dict(asdict(result.stats)),
            "clamped": [[one.name, [one.asked, one.given]] for one in result.clamped],
            "detail": result.detail[:1000],
            "python": result.python,
            "workspace": change_fields(result.workspace),
            "crossings": [
                [one.host, [one.port, one.address, one.verdict, one.received, one.sent]]
                for one in result.crossings
            ],
        },
        body=b"".join(
            (
                *(result.stdout, result.stderr, result.result, *contents),
                *change_bodies(result.workspace),
            )
        ),
    )


def decode_result(message: Message) -> SandboxResult:
    """Read a result, or refuse it with BadFrame."""
    read = MessageFields(message)
    word = read.text("reason")
    if word not in set(Reason):
        raise BadFrame("The reason is not one of the closed list.")
    exit_code = read.optional_whole("exit_code")
    sizes = (read.whole("stdout"), read.whole("stderr"), read.whole("result"))
    outputs = read.pairs("outputs")
    stats = read.mapping("stats")
    if set(stats) != set(Stats.__dataclass_fields__):
        raise BadFrame("The statistics are not complete.")
    clamped: list[Clamp] = []
    for name, pair in read.pairs("clamped"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadFrame("The field clamped does not hold pairs.")
        clamped.append(Clamp(name, _whole(pair[0], "clamped"), _whole(pair[1], "clamped")))
    result = SandboxResult(
        reason=Reason(word),
        exit_code=exit_code,
        stats=Stats(**{name: _whole(value, "stats") for name, value in stats.items()}),
        clamped=tuple(clamped),
        detail=read.text("detail"),
        python=read.text("python"),
        crossings=tuple(_crossing(host, row) for host, row in read.pairs("crossings")),
        stdout=read.take(sizes[0]),
        stderr=read.take(sizes[1]),
        result=read.take(sizes[2]),
        outputs=tuple(_output(read, name, row) for name, row in outputs),
        workspace=read_changes(read.anything("workspace"), read.take),
    )
    read.done()
    return result


def _output(read: MessageFields, name: str, row: JsonValue) -> Output:
    if not isinstance(row, list) or len(row) != 2:
        raise BadFrame("An output does not have a size and a refusal.")
    content = read.take(_whole(row[0], "outputs"))
    return Output(name=name, content=content, refused=_text(row[1], "outputs"))


def _crossing(host: str, row: JsonValue) -> Crossing:
    match row:
        case [int(port), str(address), str(verdict), int(received), int(sent)]:
            return Crossing(host, port, address, verdict, received, sent)
    raise BadFrame("A crossing does not have a port, an address, a verdict and two sizes.")
