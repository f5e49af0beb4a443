"""Call a package's exported function, or run its tests, with Node in a fresh sandbox each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Unpack

from apps.core.correlation import current_correlation_id
from apps.domain.egress import NO_NETWORK, Network
from apps.domain.entries import NodeEntry
from apps.domain.wire import JsonValue
from apps.sandbox.client import Around, run
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.runner import (
    ReplyKind,
    TestReport,
    ToolReply,
    Tree,
    encoded,
    files_of,
    harness_file,
    judge_reply,
    judge_tests,
    lasting,
    report_of,
)
from apps.sandbox.spec import Limits, Reason, SandboxResult, SandboxSpec

NO_TESTS: Final = (
    "No test ran: Node looks for files such as name.test.mjs, name.test.ts, test.js or anything in"
    " a folder named test."
)
# How V8 ends a process whose heap is full: by SIGABRT or SIGTRAP, after it has said so.
_HEAP_ENDS: Final = frozenset({128 + 6, 128 + 5})
_HEAP_SAYS: Final = (b"JavaScript heap out of memory", b"std::bad_alloc")


def node_command(limits: Limits, script: str, *arguments: str) -> tuple[str, ...]:
    """Return how Node is started on one of our programs, with a heap that its limit has room for.

    Beside the heap a process needs room for its code and its threads.
    """
    heap = max(32, limits.memory_mb * 5 // 8)
    return (
        "node", f"--max-old-space-size={heap}", "--disable-warning=ExperimentalWarning",
        f"/kaizen/{script}", *arguments,
    )  # fmt: skip


def call_node_tool(
    *,
    tree: Tree,
    entry: NodeEntry,
    arguments: Mapping[str, JsonValue],
    dependencies: str = "",
    network: Network = NO_NETWORK,
    limits: Limits | None = None,
    deadline_s: float,
    correlation: str | None = None,
    **around: Unpack[Around],
) -> ToolReply:
    """Call an exported function of a package tree with its arguments, confined.

    Every ending is an outcome, UNAVAILABLE where certainly nothing was run; only a job that can
    never run raises (JobRefused). `dependencies` is the content address of what is installed.
    """
    limits = limits or lasting(Limits.for_node(), deadline_s)
    spec = SandboxSpec(
        argv=node_command(limits, "call_tool.mjs", entry.path, entry.export),
        files=files_of(tree),
        harness=harness_file("call_tool.mjs", "channel.mjs"),
        stdin=encoded(arguments),
        limits=limits,
        correlation_id=correlation or current_correlation_id(),
        dependencies=dependencies,
        network=network,
        runtimes=("node",),
    )
    try:
        result = run(spec, deadline_s=deadline_s, **around)
    except SandboxUnavailable as away:
        return ToolReply(ReplyKind.UNAVAILABLE, message=away.message)
    return judge_reply(heap_judged(result))


def run_node_tests(
    *,
    tree: Tree,
    pi: bool = False,
    dependencies: str = "",
    limits: Limits | None = None,
    deadline_s: float,
    correlation: str | None = None,
    **around: Unpack[Around],
) -> TestReport:
    """Run a package tree's tests with Node's own runner, on a writable copy of the tree.

    With `pi` they find the packages that Pi brings. Raises SandboxUnavailable where nothing was
    run: no sandbox means no report.
    """
    limits = limits or lasting(Limits.for_node(), deadline_s)
    spec = SandboxSpec(
        argv=node_command(limits, "run_tests.mjs", *(("pi",) if pi else ())),
        files=files_of(tree),
        harness=harness_file("run_tests.mjs", "channel.mjs"),
        limits=limits,
        env=PI_VARIABLES if pi else (),
        correlation_id=correlation or current_correlation_id(),
        dependencies=dependencies,
        runtimes=("pi", "node") if pi else ("node",),
    )
    result = run(spec, deadline_s=deadline_s, **around)
    counts, sentence = judge_tests(heap_judged(result), none_ran=NO_TESTS)
    return report_of(
        result, (counts, sentence), runtime=f"Node {counts.runtime}" if counts.runtime else "Node"
    )


# Nothing is looked up outside, and no file that another run could have left is taken for code.
PI_VARIABLES: Final = (
    ("JITI_FS_CACHE", "false"),
    ("PI_OFFLINE", "1"),
    ("PI_CODING_AGENT_DIR", "/tmp"),  # noqa: S108 - a file system of the sandbox's own
)


def heap_judged(result: SandboxResult) -> SandboxResult:
    """Call the end of a process with a full heap by its name."""
    full = result.reason is Reason.EXIT and result.exit_code in _HEAP_ENDS
    if full and any(words in result.stderr for words in _HEAP_SAYS):
        return replace(result, reason=Reason.MEMORY_LIMIT, exit_code=None)
    return result
