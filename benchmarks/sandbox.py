"""What does code cost? Programs through the public API, and what the confinement adds.

Each measured call is proposed over REST by a run's token, decided, journalled, carried by the
broker to a worker, run in a sandbox of its own with its workspace, projected, settled, audited, and
waited for over REST. Then an interpreter is started bare and confined in turn, and cells are timed.
Last, programs are timed once more where no sandbox is launched before it is asked for.

    python -m benchmarks.sandbox [--quick]
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import Any

from benchmarks.harness import BenchmarkFailed, Partner, Report, Stack, main, percentile, say
from benchmarks.load import Connection
from benchmarks.sandboxes import as_root
from kaizen.runtimes import places

AT_ONCE, WARMING = 16, 5
P50_MS, P99_MS, CELL_MS = 100.0, 300.0, 15.0
RATIO = {False: 3.0, True: 4.0}
PROGRAM = {"language": "python", "code": "print(6 * 7)", "artifact_targets": []}
CELL = {**PROGRAM, "kernel": True}


class Client:
    """One run that proposes programs and waits for each."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = Connection(url)
        self._headers = {"Authorization": f"Run {token}"}
        self._number = 0
        self.failed = 0

    async def open(self) -> None:
        """Connect."""
        await self._connection.open()

    async def call(self, arguments: dict[str, Any]) -> float:
        """Propose one program, wait for its end, and return the milliseconds of both."""
        self._number += 1
        body = {
            "name": "run_code",
            "arguments": arguments,
            "proposal_id": f"{time.time_ns()}-{self._number}",
        }
        began = time.perf_counter()
        status, answer = await self._connection.post("/api/v1/callback/calls", body, self._headers)
        told = json.loads(answer)
        while status == 202:
            path = f"/api/v1/callback/calls/{told['call']}?wait=25"
            status, answer = await self._connection.get(path, self._headers)
            told = json.loads(answer)
        took = (time.perf_counter() - began) * 1000
        if status != 200:
            raise BenchmarkFailed(f"run_code answered {status}: {answer[:300]!r}")
        value = (told.get("projection") or {}).get("value") or {}
        if told["outcome"] != "ok" or value.get("stdout") != "42\n":
            self.failed += 1
            say(f"A program failed: {answer[:300]!r}")
        return took

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def measure(quick: bool) -> Report:
    """Measure programs one after the other, sixteen at once, the bare start, and cells."""
    if not (places()[0] / "python").exists():
        raise BenchmarkFailed("The sandbox's Python is not there to be compared: run `make venv`.")
    count, starts = (30, 20) if quick else (200, 60)
    with Stack() as stack:
        partner = stack.partner("benchmarks.sandbox_world")
        clients = _clients(stack, partner, AT_ONCE)
        figures: dict[str, float | int] = asyncio.run(_programs(clients, count))
        failed = sum(one.failed for one in clients)
        seen = partner.ask("audited")
        times = partner.ask("start", count=starts)
        bare, confined = (statistics.median(times[name]) for name in ("bare", "confined"))
        cells = partner.ask("cells", count=count)["ms"]
    cold, failed_cold = _cold(count)
    figures |= {
        "run_code_cold_p50_ms": round(percentile(cold, 0.5), 1),
        "failures": failed + failed_cold,
        "audited": seen["audited"],
        "settled": seen["calls"],
        "python_start_bare_ms": round(bare, 2),
        "python_start_confined_ms": round(confined, 2),
        "python_start_ratio": round(confined / bare, 2),
        "kernel_cell_p50_ms": round(statistics.median(cells), 2),
        "as_root": int(as_root()),
    }
    holds = (
        not figures["failures"]
        and figures["audited"] == figures["settled"] >= count + AT_ONCE
        and figures["run_code_p50_ms"] <= P50_MS
        and figures["run_code_p99_ms"] <= P99_MS
        and figures["python_start_ratio"] <= RATIO[as_root()]
        and figures["kernel_cell_p50_ms"] <= CELL_MS
    )
    return Report(figures, ok=holds)


def _clients(stack: Stack, partner: Partner, many: int) -> list[Client]:
    return [Client(stack.url, token) for token in partner.ask("open", many=many)["tokens"]]


def _cold(count: int) -> tuple[list[float], int]:
    """Return the milliseconds of programs that each wait for their sandbox, and how many failed."""
    stack = Stack()
    stack.extra["KAIZEN_SANDBOXES_READY"] = "0"
    with stack:
        [client] = _clients(stack, stack.partner("benchmarks.sandbox_world"), 1)
        times = asyncio.run(_one_after_the_other(client, count))
        return times, client.failed


async def _one_after_the_other(client: Client, count: int) -> list[float]:
    await client.open()
    for _ in range(WARMING):
        await client.call(PROGRAM)
    times = [await client.call(PROGRAM) for _ in range(count)]
    client.close()
    return times


async def _programs(clients: list[Client], count: int) -> dict[str, float | int]:
    for one in clients:
        await one.open()
    first = clients[0]
    for _ in range(WARMING):
        await first.call(PROGRAM)
    times = [await first.call(PROGRAM) for _ in range(count)]
    say(f"{count} programs one after the other: {percentile(times, 0.5):.0f} ms each")
    began = time.perf_counter()
    together = await asyncio.gather(*(one.call(PROGRAM) for one in clients))
    took = (time.perf_counter() - began) * 1000
    say(f"{len(clients)} at once: all after {took:.0f} ms")
    # The server has closed what was idle for so long.
    first.close()
    await first.open()
    await first.call(CELL)
    cells = [await first.call(CELL) for _ in range(count // 2)]
    for one in clients:
        one.close()
    return {
        "run_code_p50_ms": round(percentile(times, 0.5), 1),
        "run_code_p99_ms": round(percentile(times, 0.99), 1),
        "at_once_p50_ms": round(percentile(together, 0.5), 1),
        "at_once_all_ms": round(took, 1),
        "kernel_call_p50_ms": round(percentile(cells, 0.5), 1),
    }


if __name__ == "__main__":
    sys.exit(main("sandbox", measure))
