"""Can anything be done without a right to it? Generated attempts against the real boundary.

Two processes attack at once, in worlds of their own, through the product's services with committed
transactions and through its web server. Whatever is carried out leaves a line in a file outside the
database: what was forbidden may leave none, what was allowed exactly one. Finally the same attempts
run against a build without its receipt check, and have to find executions.

    python -m benchmarks.faults [--quick]
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.effects import FILE_VARIABLE
from benchmarks.harness import BenchmarkFailed, Partner, Report, Stores, main, say

SEED = 20_240_229
PIECE = 250


class Found:
    """What all attackers saw, and what really happened."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, answer: dict[str, Any]) -> None:
        """Take one attacker's answer in."""
        self.tried.update(answer["tried"])
        self.seen.update(answer["seen"])
        self.examples.extend(answer["examples"])


def measure(quick: bool) -> Report:
    """Attack, then attack what is broken."""
    attempts, racing, broken = (500, 40, 120) if quick else (10_500, 500, 600)
    with Stores() as stores:
        effects = stores.var / "effects"
        os.environ[FILE_VARIABLE] = str(effects)
        web = f"http://127.0.0.1:{stores.serve('benchmarks.faults.web:application')}"
        two = [
            stores.partner("benchmarks.faults.attacker", f"a{n}", web, str(SEED + n))
            for n in (1, 2)
        ]
        found, began = Found(), time.monotonic()
        _attack(two, attempts, found)
        _race(two, racing)
        found.tried["double consume"] = racing
        executed, missing = _count(effects, stores.environment["DATABASE_URL"])
        took = time.monotonic() - began
        for kind, count in sorted(found.tried.items()):
            say(f"{count:6}  {kind}")
        for example in found.examples[:20]:
            say(f"NOT REFUSED: {example}")
        say(f"{found.tried.total()} attempts in {took:.0f} s: {executed} executed")

        effects.unlink()
        careless = stores.partner("benchmarks.faults.attacker", "b1", web, str(SEED), "broken")
        open_doors = Found()
        _attack([careless], broken, open_doors)
        caught, _ = _count(effects, stores.environment["DATABASE_URL"])
        say(f"Without the receipt check: {caught} executed, as counted by the same file")
    figures: dict[str, float | int] = {
        "attempts": found.tried.total(),
        "kinds": len(found.tried),
        "executed": executed,
        "admitted": found.seen["admitted"],
        "distinguishable": found.seen["distinguishable"],
        "broke": found.seen["broke"],
        "allowed_and_missing": missing,
        "executed_when_broken": caught,
        "seconds": round(took, 1),
    }
    clean = not executed and not missing and not found.seen.total()
    return Report(figures, ok=clean and caught > 0)


def _attack(attackers: list[Partner], attempts: int, found: Found) -> None:
    """Let all attack at once, piece by piece."""
    each = attempts // len(attackers)
    with ThreadPoolExecutor(len(attackers)) as together:
        for done in range(0, each, PIECE):
            count = min(PIECE, each - done)
            for answer in together.map(_attack_with, attackers, [count] * len(attackers)):
                found.add(answer)
            say(f"{found.tried.total()} attempts")


def _attack_with(attacker: Partner, count: int) -> dict[str, Any]:
    return attacker.ask("attack", count=count)


def _race(attackers: list[Partner], count: int) -> None:
    """Let both processes execute the same approved calls in the same order at the same time."""
    calls = attackers[0].ask("prepare", count=count)["calls"]
    at = time.time() + 0.5
    with ThreadPoolExecutor(len(attackers)) as together:
        list(together.map(lambda one: one.ask("race", calls=calls, at=at), attackers))


def _count(effects: Path, database: str) -> tuple[int, int]:
    """Count what was done without a right to it, and what was allowed and not done.

    An artifact that a forbidden call made, or a forbidden call that was dispatched, counts as
    done although it left no line.
    """
    if not effects.exists():
        raise BenchmarkFailed("Nothing at all was carried out, so nothing was counted.")
    lines = [line.partition(" ")[2] for line in effects.read_text().splitlines()]
    done = Counter(mark.split(" ")[0] for mark in lines)
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT title FROM artifacts_artifact WHERE title LIKE 'forbidden-%'"
            " UNION SELECT split_part(proposal_id, ':', 1) FROM runs_call"
            " WHERE proposal_id LIKE 'forbidden-%' AND dispatched_at IS NOT NULL"
        ).fetchall()
        allowed = connection.execute(
            "SELECT DISTINCT split_part(proposal_id, ':', 1) FROM runs_call"
            " WHERE proposal_id LIKE 'allowed-%' AND outcome = 'ok'"
        ).fetchall()
    forbidden = {mark for mark in done if not mark.startswith("allowed-")} | {r[0] for r in rows}
    twice = sum(count - 1 for mark, count in done.items() if mark.startswith("allowed-"))
    return len(forbidden) + twice, sum(1 for row in allowed if done[row[0]] != 1)


if __name__ == "__main__":
    sys.exit(main("faults", measure))
