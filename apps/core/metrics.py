"""What is counted of a running Kaizen? Outcomes, latencies, decisions, failures, sockets.

Counting costs one addition in this process's memory, once the transaction that it is about has
committed. Labels are bounded: a tool's own name where it is one of ours, the first few package
tools by name, and one word for everything else.
"""

from __future__ import annotations

import threading
from typing import Final

from django.db import transaction
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from apps.core.counted import Board

MAX_PACKAGE_TOOLS: Final = 50
"""Package tools that a process names; the others are counted together."""
OTHER_PACKAGE_TOOL: Final = "other_package_tool"
UNKNOWN: Final = "unknown"
_PACKAGE_PREFIX: Final = "pkg_"
_SECONDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 240.0,
    3600.0, 86400.0,
)  # fmt: skip

disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
board = Board(registry)

CALLS = Counter(
    "kaizen_calls",
    "Calls by their one outcome.",
    ["tool", "capability", "outcome"],
    registry=registry,
)
FAILURES = Counter(
    "kaizen_call_failures",
    "Calls that did not succeed, by reason and by whose failure it was.",
    ["reason", "domain"],
    registry=registry,
)
CALL_SECONDS = Histogram(
    "kaizen_call_seconds",
    "From a call's proposal to its outcome, waits for people included.",
    ["capability", "outcome"],
    buckets=_SECONDS,
    registry=registry,
)
EXECUTION_SECONDS = Histogram(
    "kaizen_execution_seconds",
    "From a call's dispatch to its outcome.",
    ["tool"],
    buckets=_SECONDS[:-2],
    registry=registry,
)
APPROVALS = Counter(
    "kaizen_approvals", "Questions by what became of them.", ["decision"], registry=registry
)
RUNS = Counter("kaizen_runs", "Runs by their outcome.", ["outcome"], registry=registry)
PROVIDER_FAILURES = Counter(
    "kaizen_provider_failures",
    "Failures of the model's provider; a deterministic one would come again.",
    ["kind"],
    registry=registry,
)
MODEL_TOKENS = Counter(
    "kaizen_model_tokens",
    "Tokens that the provider says it used.",
    ["direction"],
    registry=registry,
)
STREAM_DROPS = Counter(
    "kaizen_stream_drops",
    "Previews that were given up before their end.",
    ["reason"],
    registry=registry,
)
SOCKETS_ENDED = Counter(
    "kaizen_rooms_sockets_ended", "Sockets closed from our side.", ["code"], registry=registry
)
SOCKETS = Gauge("kaizen_rooms_sockets", "Open sockets of members.", registry=registry)
VIEWERS = Gauge("kaizen_rooms_viewers", "Views of rooms that are open.", registry=registry)
WATCHED = Gauge(
    "kaizen_rooms_watched", "Rooms that somebody watches, by web process.", registry=registry
)

_named: set[str] = set()
_naming = threading.Lock()


def tool_label(name: str, *, known: bool) -> str:
    """Return the label that stands for a tool; whoever invents names gets one word for all."""
    if not known:
        return UNKNOWN
    if not name.startswith(_PACKAGE_PREFIX) or name in _named:
        return name
    with _naming:
        if len(_named) < MAX_PACKAGE_TOOLS:
            _named.add(name)
    return name if name in _named else OTHER_PACKAGE_TOOL


def count(counter: Counter, **labels: str) -> None:
    """Count one, once the current transaction has committed; at once where there is none."""
    board.start()
    transaction.on_commit(counter.labels(**labels).inc)


def count_now(counter: Counter, **labels: str) -> None:
    """Count one that no transaction is about, also on an event loop."""
    board.start()
    counter.labels(**labels).inc()


def count_call(
    *,
    tool: str,
    known: bool,
    capability: str,
    outcome: str,
    reason: str,
    domain: str,
    seconds: float | None,
    execution_seconds: float | None,
) -> None:
    """Count a call that has settled, once that has committed."""
    board.start()

    def note() -> None:
        name, what = tool_label(tool, known=known), capability or UNKNOWN
        CALLS.labels(name, what, outcome).inc()
        if reason:
            FAILURES.labels(reason, domain).inc()
        if seconds is not None:
            CALL_SECONDS.labels(what, outcome).observe(seconds)
        if execution_seconds is not None:
            EXECUTION_SECONDS.labels(name).observe(execution_seconds)

    transaction.on_commit(note)
