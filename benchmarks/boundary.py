"""What does the boundary cost? An admitted read through the callback API, against its bare tool.

Each measured call is authenticated by its run's token, throttled, checked against its schema,
decided with permissions read now, journalled, executed, projected, audited and told to the room, in
one durable transaction. Client and server share the machine's cores, in processes of their own.

    python -m benchmarks.boundary [--quick]
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

import httpx

from benchmarks.harness import CLONE, Running, finish, kaizen, options, percentile
from benchmarks.load import drive

CONCURRENCY = (1, 16, 64)
TOOL = "list_available_agents"


def main() -> None:
    """Measure, and print the figures."""
    quick = options(__doc__).quick
    seconds = 3.0 if quick else 10.0
    with kaizen() as running:
        token = _open_run(running)
        headers = {"Authorization": f"Run {token}"}
        _through_boundary(running.url, headers, 1, 1.0)
        figures: dict[str, Any] = {}
        p50: dict[int, float] = {}
        for concurrency in CONCURRENCY:
            times, took = _through_boundary(running.url, headers, concurrency, seconds)
            p50[concurrency] = percentile(times, 50)
            figures[f"calls_per_s_c{concurrency}"] = round(len(times) / took, 1)
            figures[f"p50_ms_c{concurrency}"] = round(p50[concurrency], 2)
            figures[f"p99_ms_c{concurrency}"] = round(percentile(times, 99), 2)
        bare = _bare(running, seconds)
        figures["bare_per_s_c1"] = round(1000 / bare, 1)
        figures["bare_p50_ms_c1"] = round(bare, 2)
        figures["added_ms_p50_c1"] = round(p50[1] - bare, 2)
        figures["statements_per_call"] = _statements(running)
    finish("boundary", figures, ok=figures["calls_per_s_c64"] > figures["calls_per_s_c16"] / 2)


def _open_run(running: Running) -> str:
    with httpx.Client(base_url=running.url + "/api/v1/", timeout=30) as http:
        signed = http.post(
            "auth/token", json={"username": "mara", "password": running.passwords["mara"]}
        )
        http.headers["Authorization"] = f"Bearer {signed.json()['token']}"
        room = http.get("rooms").json()["results"][0]["id"]
        opened = http.post(f"rooms/{room}/runs", json={"agent": "scribe"})
        opened.raise_for_status()
        return str(opened.json()["token"])


def _through_boundary(
    url: str, headers: dict[str, str], concurrency: int, seconds: float
) -> tuple[list[float], float]:
    batch = f"{time.time_ns()}"
    return asyncio.run(
        drive(
            url=url,
            path="/api/v1/callback/calls",
            headers=headers,
            body=lambda n: {"name": TOOL, "arguments": {}, "proposal_id": f"{batch}-{n}"},
            concurrency=concurrency,
            seconds=seconds,
        )
    )


def _bare(running: Running, seconds: float) -> float:
    port = _free_port()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", "benchmarks.bare:application"),
            *("--port", str(port), "--lifespan", "off", "--log-level", "warning"),
        ],
        cwd=CLONE,
        env={**os.environ, **running.environment},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url)
        times, _ = asyncio.run(
            drive(url=url, path="/", headers={}, body=lambda n: n, concurrency=1, seconds=seconds)
        )
        return percentile(times, 50)
    finally:
        server.terminate()
        server.wait(10)


def _statements(running: Running) -> int:
    """Count the statements of one call, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.statements"],
        cwd=CLONE,
        env={**os.environ, **running.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(json.loads(answer.stdout.splitlines()[-1])["statements"])


def _wait_for(url: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            httpx.post(url, timeout=2)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    sys.exit("The bare server did not start.")


def _free_port() -> int:
    from kaizen.supervisor.ports import free_port

    return free_port()


if __name__ == "__main__":
    main()
