"""One attacking process: makes its world, then tries what it is asked to, counting what it saw."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import django

django.setup()

from django.db import DatabaseError, connection  # noqa: E402

from apps.boundary.pipeline import execute_waiting  # noqa: E402
from benchmarks.effects import FILE_VARIABLE  # noqa: E402
from benchmarks.faults import authority, doors, receipts, siege  # noqa: E402
from benchmarks.faults.broken import break_the_receipt_check  # noqa: E402
from benchmarks.faults.world import ATTEMPTS, Admitted, World  # noqa: E402
from benchmarks.outside import install  # noqa: E402

__all__ = ["authority", "doors", "receipts", "siege"]

TOLD = 5
SIEGES = 12


class Attacker:
    """Draws attempts from a seed, and keeps what was let through or told apart."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Random(seed)
        # One bag of all, so that each kind is tried as often as it has ways; a siege is many.
        self.bag = [(kind, one) for kind, ways in ATTEMPTS.items() for one in ways]
        self.bag += [("allowed", siege.a_call_under_siege)] * SIEGES

    def attack(self, count: int) -> dict[str, Any]:
        """Make so many attempts."""
        tried = self.world.tried = Counter()
        seen: Counter[str] = Counter()
        examples: list[str] = []
        while tried.total() < count:
            kind, one = self.chance.choice(self.bag)
            tried[kind] += 1
            try:
                one(self.world, self.chance)
            except Admitted as admitted:
                seen["admitted"] += 1
                examples.append(f"{kind}, {one.__name__}: {admitted}"[:300])
            except DatabaseError as wall:
                # No refusal, so it counts; behind a broken check a wall further in may hold so.
                seen["broke"] += 1
                examples.append(f"{kind}, {one.__name__}: {wall}"[:300])
            except doors.Distinguishable as apart:
                seen["distinguishable"] += 1
                examples.append(f"{kind}, {one.__name__}: {apart}"[:600])
        return {"tried": tried, "seen": seen, "examples": examples[:TOLD]}

    def prepare(self, count: int) -> dict[str, Any]:
        """Leave so many approved calls for two processes to race for."""
        calls = []
        for _ in range(count):
            self.world.allow()
            calls.append(str(self.world.approved().pk))
        return {"calls": calls}

    def race(self, calls: list[str], at: float) -> dict[str, Any]:
        """Execute calls in this order from one moment on, as the other process does."""
        time.sleep(max(0.0, at - time.time()))
        for call in calls:
            execute_waiting(call_id=call, executor=self.world.name)
        return {}


def main(name: str, web: str, seed: int, *flags: str) -> None:
    """Answer one request a line."""
    install(Path(os.environ[FILE_VARIABLE]))
    if "broken" in flags:
        break_the_receipt_check()
    attacker = Attacker(World(name, web=web), seed)
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.pop("what"):
            case "attack":
                answer = attacker.attack(**asked)
            case "prepare":
                answer = attacker.prepare(**asked)
            case "race":
                answer = attacker.race(**asked)
            case unknown:
                raise ValueError(f"Nobody knows how to {unknown}.")
        print(json.dumps(answer), flush=True)
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
