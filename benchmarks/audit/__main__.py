"""Is every change of the audit trail found, how quickly, and what does a row cost?

Ten thousand random changes by an owner of the tables, each verified over the whole of a small
trail; a share of them through the command, on a database of its own. Then a million rows are
verified by the command, and a durable transaction is timed with and without its audit row. Finally
a verdict that compares no codes has to miss changes.

    python -m benchmarks.audit [--quick]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter

import psycopg
from psycopg import sql

from benchmarks.harness import CLONE, BenchmarkFailed, Report, Stores, main, percentile, say

SEED = 20_260_131
MOST_VERIFY_SECONDS = 60.0
MOST_APPEND_MS = 1.0


def measure(quick: bool) -> Report:
    """Change, find, verify, append."""
    count, whole, rows, appends = (
        (400, 4, 100_000, 300) if quick else (10_000, 15, 1_000_000, 3_000)
    )
    with Stores() as stores:
        auditor = stores.partner("benchmarks.audit.auditor")
        began = time.monotonic()
        found = auditor.ask("tamper", count=count, seed=SEED, broken=False)
        took = time.monotonic() - began
        for kind, tried in sorted(Counter(found["ways"]).items()):
            say(f"{tried:6}  {kind}")
        for example in found["examples"]:
            say(f"NOT FOUND: {example}")
        say(f"{found['tried']} changes in {took:.0f} s, {found['missed']} not found")
        by_command = _whole(stores, whole)
        say(f"{whole} changes verified by the command, {by_command} not found")
        large = stores.partner("benchmarks.audit.auditor")
        trail = large.ask("large_trail", rows=rows)
        began = time.monotonic()
        told = json.loads(stores.manage("audit", "verify", "--json").stdout)
        verified = time.monotonic() - began
        if not told["sound"] or told["sealed_rows"] < rows:
            raise BenchmarkFailed(f"The large trail is not sound: {told}")
        say(
            f"{told['sealed_rows']} rows verified in {verified:.1f} s, the command's start included"
        )
        times = large.ask("append", count=appends)
        plain, audited = (percentile(times[name], 0.5) for name in ("plain", "audited"))
        say(f"A transaction takes {plain:.2f} ms, and {audited:.2f} ms with its audit row")
        blind = stores.partner("benchmarks.audit.auditor").ask(
            "tamper", count=min(count, 200), seed=SEED, broken=True
        )
        say(f"Without comparing codes: {blind['missed']} of {blind['tried']} not found")
    figures: dict[str, float | int] = {
        "tamperings": found["tried"] + whole,
        "ways": len(found["ways"]),
        "not_found": found["missed"] + by_command,
        "rows_verified": told["sealed_rows"],
        "verify_s": round(verified, 2),
        "rows_per_s": round(told["sealed_rows"] / verified),
        "sealed_rows_per_s": round(trail["sealed"] / trail["seal_s"]),
        "append_added_ms_p50": round(audited - plain, 3),
        "transaction_ms_p50": round(plain, 3),
        "not_found_when_broken": blind["missed"],
    }
    holds = (
        figures["not_found"] == 0
        and verified <= MOST_VERIFY_SECONDS
        and audited - plain <= MOST_APPEND_MS
        and blind["missed"] > 0
    )
    return Report(figures, ok=holds)


def _whole(stores: Stores, count: int) -> int:
    """Change a committed trail for good and ask the command; each time in a fresh copy."""
    address = stores.environment["DATABASE_URL"]
    base, _, name = address.rpartition("/")
    template, copy = f"{name}_template", f"{name}_copy"
    missed = 0
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:

        def again(made: str, of: str) -> None:
            for statement in (
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(made)),
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                    sql.Identifier(made), sql.Identifier(of)
                ),
            ):
                connection.execute(statement)

        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        again(template, name)
        _beside(stores, f"{base}/{template}", "small_trail", seed=SEED)
        for number in range(count):
            again(copy, template)
            _beside(stores, f"{base}/{copy}", "spoil", seed=SEED + number)
            verdict = subprocess.run(
                [sys.executable, str(CLONE / "manage.py"), "audit", "verify", "--json"],
                env={**stores.environment, "DATABASE_URL": f"{base}/{copy}"},
                cwd=CLONE,
                capture_output=True,
                text=True,
                check=False,
            )
            missed += verdict.returncode == 0
    return missed


def _beside(stores: Stores, address: str, what: str, **details: int) -> None:
    """Let another auditor do one thing in another database, and leave."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.audit.auditor"],
        env={**stores.environment, "DATABASE_URL": address},
        cwd=CLONE,
        input=json.dumps({"what": what, **details}) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchmarkFailed(f"{what} failed: {done.stderr[-1000:]}")


if __name__ == "__main__":
    sys.exit(main("audit", measure))
