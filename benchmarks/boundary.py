"""What does the boundary cost? An admitted read through the callback API, against its bare tool.

Each measured call is authenticated by its run's token, throttled, checked against its schema,
decided with permissions read now, journalled, executed, projected, audited and told to the room, in
one durable transaction. Sixteen runs of one room propose, as sixteen agents would; calls of a
single run take turns, and are measured as well. Client and servers share the machine's cores, in
processes of their own.

    python -m benchmarks.boundary [--quick]
"""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.harness import Report, Stack, main, percentile, say
from benchmarks.load import drive

CONCURRENCY = (1, 16, 64)
RUNS = 16
TOOL = "list_available_agents"

CALLS_PER_S = 150.0
KEPT_AT_64 = 0.7
ADDED_MS = 10.0


def measure(quick: bool) -> Report:
    """Measure calls of many runs and of one, then the bare tool, on the same stores."""
    seconds = 3.0 if quick else 10.0
    with Stack() as stack:
        tokens = stack.partner("benchmarks.statements").ask("open", many=RUNS)["tokens"]
        _through_boundary(stack.url, tokens, RUNS, 2.0)
        figures: dict[str, float | int] = {}
        p50: dict[int, float] = {}
        for concurrency in CONCURRENCY:
            before = stack.cpu_seconds()
            times, took = _through_boundary(stack.url, tokens, concurrency, seconds)
            spent = (stack.cpu_seconds() - before) * 1000
            p50[concurrency] = percentile(times, 0.5)
            figures[f"calls_per_s_c{concurrency}"] = round(len(times) / took, 1)
            figures[f"p50_ms_c{concurrency}"] = round(p50[concurrency], 2)
            figures[f"p99_ms_c{concurrency}"] = round(percentile(times, 0.99), 2)
            figures[f"cpu_ms_per_call_c{concurrency}"] = round(spent / len(times), 2)
            say(f"{concurrency} at once: {figures[f'calls_per_s_c{concurrency}']} calls/s")
        times, took = _through_boundary(stack.url, tokens[:1], 16, seconds)
        figures["calls_per_s_one_run_c16"] = round(len(times) / took, 1)
        bare = _bare(stack, seconds)
        figures["bare_p50_ms_c1"] = round(bare, 2)
        figures["added_ms_p50_c1"] = round(p50[1] - bare, 2)
        figures["ratio_to_bare_c1"] = round(p50[1] / bare, 2)
        figures["statements_per_call"] = stack.partner("benchmarks.statements").ask("count")[
            "statements"
        ]
    holds = (
        figures["calls_per_s_c16"] >= CALLS_PER_S
        and figures["calls_per_s_c64"] >= KEPT_AT_64 * figures["calls_per_s_c16"]
        and figures["added_ms_p50_c1"] <= ADDED_MS
    )
    return Report(figures, ok=holds)


def _through_boundary(
    url: str, tokens: list[str], concurrency: int, seconds: float
) -> tuple[list[float], float]:
    batch = f"{time.time_ns()}"
    return asyncio.run(
        drive(
            url=url,
            path="/api/v1/callback/calls",
            headers=[{"Authorization": f"Run {token}"} for token in tokens],
            body=lambda n: {"name": TOOL, "arguments": {}, "proposal_id": f"{batch}-{n}"},
            concurrency=concurrency,
            seconds=seconds,
        )
    )


def _bare(stack: Stack, seconds: float) -> float:
    url = f"http://127.0.0.1:{stack.serve('benchmarks.bare:application')}"
    times, _ = asyncio.run(
        drive(url=url, path="/", headers=[{}], body=lambda n: n, concurrency=1, seconds=seconds)
    )
    return percentile(times, 0.5)


if __name__ == "__main__":
    sys.exit(main("boundary", measure))
