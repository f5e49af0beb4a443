"""Call a package's tool, or run its tests, in a fresh sandbox each time.

The trusted half lives here: it builds the job, reads the bounded answer, and decides what it
means. What runs inside only ever makes claims.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Unpack

from apps.core.correlation import current_correlation_id
from apps.domain.egress import NO_NETWORK, Crossing, Network
from apps.domain.wire import JsonValue
from apps.domain.words import visible
from apps.sandbox.client import Around, run
from apps.sandbox.errors import JobRefused, SandboxUnavailable
from apps.sandbox.replies import (
    BadReply,
    Counts,
    Raised,
    Stated,
    Unfit,
    Value,
    read_counts,
    read_tool_reply,
)
from apps.sandbox.spec import Clamp, Limits, Reason, SandboxResult, SandboxSpec, Stats
from apps.sandboxd.runtimes import OFFICE

Tree = Mapping[str, bytes] | Sequence[tuple[str, bytes]]

_HARNESS: Final = Path(__file__).with_name("harness")
_PYTHON: Final = ("python", "-I", "-S", "-B")
# With its own libraries, which the bare one does not have.
_LIBRARIES: Final = ("python", "-I", "-B")
_ENTRY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z", re.ASCII)
TAIL_CHARACTERS: Final = 16_000


class ReplyKind(StrEnum):
    """How a tool call ended, as one closed word."""

    VALUE = "value"
    RAISED = "raised"
    # The tool itself says that it could not, in words that are meant to be read.
    STATED = "stated"
    # The request itself could not be met; the tool did its job.
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    # Something that the call stands on could not be pinned; nothing was run.
    UNPREPARED = "unprepared"
    CONTRACT_ERROR = "contract_error"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    CPU_LIMIT = "cpu_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    TOO_MANY_FILES = "too_many_files"
    PROTOCOL_ERROR = "protocol_error"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"
    DRIVER_FAILED = "driver_failed"


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The outcome of one tool call.

    `value` counts only for VALUE. `message` is bounded and may be shown; `stdout` and `stderr` are
    what the tool printed, for people and never as its answer.
    """

    kind: ReplyKind
    value: JsonValue = None
    error_type: str = ""
    message: str = ""
    traceback: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    stats: Stats = field(default_factory=Stats)
    clamped: tuple[Clamp, ...] = ()
    # By the recorded name of the tool, or of a session's program: each path and its digest.
    pins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    crossings: tuple[Crossing, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether the tool returned a value."""
        return self.kind is ReplyKind.VALUE


# Ends that leave no answer to look at, and what is said about them.
CUT_SHORT: Final[Mapping[Reason, tuple[ReplyKind, str]]] = {
    Reason.WALL_TIMEOUT: (ReplyKind.TIMEOUT, "The tool did not finish before its deadline."),
    Reason.CPU_LIMIT: (ReplyKind.CPU_LIMIT, "The tool used more CPU time than it may."),
    Reason.MEMORY_LIMIT: (ReplyKind.MEMORY_LIMIT, "The tool used more memory than it may."),
    Reason.OUTPUT_LIMIT: (ReplyKind.OUTPUT_LIMIT, "The tool wrote more output than it may."),
    Reason.TOO_MANY_FILES: (ReplyKind.TOO_MANY_FILES, "The tool made more files than it may."),
    Reason.PROTOCOL_ERROR: (ReplyKind.PROTOCOL_ERROR, "The tool broke the protocol."),
    Reason.CANCELLED: (ReplyKind.CANCELLED, "The call was cancelled."),
    Reason.DRIVER_UNAVAILABLE: (ReplyKind.UNAVAILABLE, "No sandbox could run this."),
    Reason.DRIVER_FAILED: (ReplyKind.DRIVER_FAILED, "The sandbox itself failed."),
}


def lasting(usual: Limits, deadline_s: float) -> Limits:
    """Return usual limits for a job whose time nothing but its own deadline bounds."""
    return replace(usual, wall_ms=max(1, int(deadline_s * 1000)))


def check_entry(entry: str) -> str:
    """Return an entry of the form module:function, or refuse it with JobRefused."""
    if len(entry) > 200 or not _ENTRY.match(entry):
        raise JobRefused("An entry has the form module:function, in plain Python names.")
    return entry


def files_of(tree: Tree) -> tuple[tuple[str, bytes], ...]:
    """Return a tree as the pairs that a job takes."""
    return tuple(tree.items()) if isinstance(tree, Mapping) else tuple(tree)


def harness_file(*names: str) -> tuple[tuple[str, bytes], ...]:
    """Return the small programs of ours that a job is given, by their names."""
    return tuple((name, (_HARNESS / name).read_bytes()) for name in names)


def call_python_tool(
    *,
    tree: Tree,
    entry: str,
    arguments: Mapping[str, JsonValue],
    limits: Limits | None = None,
    deadline_s: float,
    correlation: str | None = None,
    network: Network = NO_NETWORK,
    runtimes: tuple[str, ...] = (),
    **around: Unpack[Around],
) -> ToolReply:
    """Call `module:function` of a package tree with its arguments, confined.

    The function takes one dict and returns a JSON value. Every ending is an outcome, UNAVAILABLE
    where certainly nothing was run; only a job that can never run raises (JobRefused).
    """
    spec = SandboxSpec(
        argv=(
            *(_LIBRARIES if OFFICE in runtimes else _PYTHON),
            "/kaizen/call_tool.py",
            check_entry(entry),
        ),
        runtimes=runtimes,
        files=files_of(tree),
        harness=harness_file("call_tool.py"),
        stdin=encoded(arguments),
        limits=limits or lasting(Limits(), deadline_s),
        correlation_id=correlation or current_correlation_id(),
        network=network,
    )
    try:
        result = run(spec, deadline_s=deadline_s, **around)
    except SandboxUnavailable as away:
        return ToolReply(ReplyKind.UNAVAILABLE, message=away.message)
    return judge_reply(result)


def encoded(arguments: Mapping[str, JsonValue]) -> bytes:
    """Return arguments as the JSON that a job reads, or refuse them with JobRefused."""
    try:
        return json.dumps(dict(arguments), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise JobRefused("The arguments are not JSON.") from problem


def judge_reply(result: SandboxResult) -> ToolReply:
    """Say how a tool's call ended, from what came out of its sandbox."""

    def reply(
        kind: ReplyKind,
        message: str = "",
        *,
        value: JsonValue = None,
        error_type: str = "",
        traceback: str = "",
    ) -> ToolReply:
        return ToolReply(
            kind=kind,
            value=value,
            error_type=error_type,
            message=message,
            traceback=traceback,
            exit_code=result.exit_code,
            stdout=shown_output(result.stdout),
            stderr=shown_output(result.stderr),
            stats=result.stats,
            clamped=result.clamped,
            crossings=result.crossings,
        )

    if result.reason in CUT_SHORT:
        kind, sentence = CUT_SHORT[result.reason]
        return reply(kind, result.detail or sentence)
    if result.reason is Reason.EXIT:
        code = result.exit_code
        return reply(ReplyKind.CRASHED, f"The tool's process ended with exit code {code}.")
    try:
        said = read_tool_reply(result.result)
    except BadReply as problem:
        return reply(ReplyKind.PROTOCOL_ERROR, str(problem))
    match said:
        case Value(value=value):
            return reply(ReplyKind.VALUE, value=value)
        case Raised(type=kind_of, message=message, traceback=trace):
            return reply(ReplyKind.RAISED, message, error_type=kind_of, traceback=trace)
        case Stated(message=message):
            return reply(ReplyKind.STATED, message)
        case Unfit(message=message):
            return reply(ReplyKind.CONTRACT_ERROR, message)


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a test run of a package tree came to; built here, from a bounded claim."""

    __test__ = False  # not a test of pytest's

    passed: bool
    ran: int
    failed: int
    skipped: int
    sentence: str
    output_tail: str
    reason: Reason
    runtime: str
    duration_ms: int
    clamped: tuple[Clamp, ...] = ()


def run_unittests(
    *,
    tree: Tree,
    limits: Limits | None = None,
    deadline_s: float,
    correlation: str | None = None,
    **around: Unpack[Around],
) -> TestReport:
    """Run a package tree's unittest suite confined, on a writable copy of the tree.

    Raises SandboxUnavailable where nothing was run: no sandbox means no report.
    """
    spec = SandboxSpec(
        argv=(*_PYTHON, "/kaizen/run_tests.py"),
        files=files_of(tree),
        harness=harness_file("run_tests.py"),
        limits=limits or lasting(Limits(), deadline_s),
        correlation_id=correlation or current_correlation_id(),
    )
    result = run(spec, deadline_s=deadline_s, **around)
    return report_of(
        result, judge_tests(result), runtime=f"Python {result.python}" if result.python else ""
    )


def _said_of(ran: int) -> str:
    return "1 test ran and did not fail." if ran == 1 else f"{ran} tests ran and none failed."


def report_of(result: SandboxResult, judged: tuple[Counts, str], *, runtime: str) -> TestReport:
    """Build the report of a test run, from its counts and from why they are no pass, if so."""
    counts, sentence = judged
    return TestReport(
        passed=not sentence,
        ran=counts.ran,
        failed=counts.failed,
        skipped=counts.skipped,
        sentence=sentence or _said_of(counts.ran),
        output_tail=shown_output(result.stdout + result.stderr)[-TAIL_CHARACTERS:],
        reason=result.reason,
        runtime=runtime,
        duration_ms=result.stats.wall_ms,
        clamped=result.clamped,
    )


_UNITTESTS: Final = (
    "No test ran: unittest looks for test*.py in the root of the package and in folders with an"
    " __init__.py."
)


def judge_tests(result: SandboxResult, *, none_ran: str = _UNITTESTS) -> tuple[Counts, str]:
    """Return the counts, and why they are no pass; an empty sentence means that they are one."""
    nothing = Counts(0, 0, 0, ())
    if result.reason in CUT_SHORT:
        sentence = result.detail or CUT_SHORT[result.reason][1].replace("The tool", "The test run")
        return nothing, sentence
    try:
        counts = read_counts(result.result)
    except BadReply as problem:
        return nothing, f"The test run ended without a report: {problem}"
    if counts.failed:
        return counts, f"{counts.failed} of {counts.ran} tests failed."
    if result.reason is not Reason.OK:
        return counts, f"The test run ended with exit code {result.exit_code}."
    if counts.ran - counts.skipped <= 0:
        return counts, none_ran
    return counts, ""


def shown_output(output: bytes) -> str:
    """Return output for people: whatever a terminal would obey is made visible instead."""
    return visible(output.decode("utf-8", "replace"))
