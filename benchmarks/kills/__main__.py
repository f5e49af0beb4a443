"""What happens when anything dies at any step? Two hundred kills, and a count outside.

Members and other runtimes go on asking for things while workers, web server, broker and database
are killed with SIGKILL: each at every step that passes in it, and the stores and the web server
while others stand between two steps, also between a commit and its bell. After each round all must
settle within a minute, and what the rows say must be what was done: a file outside the database has
one line for each effect. First of all a build that takes an unknown end for none has to be caught.

    python -m benchmarks.kills [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from random import Random

import psycopg

from benchmarks.effects import FILE_VARIABLE, Effects
from benchmarks.harness import BenchmarkFailed, Report, Stack, main, say
from benchmarks.kills.stories import Lane, Story
from benchmarks.kills.traps import CALLS, FOLDER_VARIABLE, SELF, TURNS, WEB, Trap, Traps
from benchmarks.kills.verdict import Verdict, judge, unsettled

SEED = 20_250_118
LANES = 6
ROUND = 18
SETTLE_SECONDS = 60.0
COME_SECONDS = 8.0
BACK_SECONDS = 40.0
MORE_ROUNDS = 3
BROKEN_VARIABLE = "KAIZEN_BENCHMARK_BROKEN"


def measure(quick: bool) -> Report:
    """Let a broken build be caught; then kill, wait, compare."""
    caught = _broken()
    say(f"broken on purpose: {caught} duplicated, as counted by the same file")
    traps = _plan(quick)
    with Mortal(broken=False) as mortal:
        verdict, late = Verdict(), 0
        began = time.monotonic()
        for number, batch in enumerate(_rounds(traps)):
            late += mortal.round(batch)
            say(f"round {number + 1}: {len(mortal.died)} kills, {mortal.told()} stories so far")
        for _ in range(MORE_ROUNDS):
            # Where nobody came by in time, somebody may now.
            again, mortal.missed = mortal.missed, []
            late += mortal.round(again) if again else 0
        mortal.leave()
        verdict = mortal.judge()
        verified = mortal.stack.manage("audit", "verify")
        sound = verified.returncode == 0
        if not sound:
            say(f"The audit trail is not sound: {verified.stdout[-2000:]}{verified.stderr[-2000:]}")
        took, died = time.monotonic() - began, list(mortal.died)
    for sentence in verdict.said[:40]:
        say(sentence)
    for trap in mortal.missed:
        say(f"nobody came: {trap}")
    figures: dict[str, float | int] = {
        "kills": len(died),
        "points": len({(trap.process, trap.step, trap.victim) for trap in died}),
        "stories": mortal.told(),
        "duplicated": verdict.figures["duplicated"],
        "lost": verdict.figures["lost"],
        "misreported": verdict.figures["misreported"],
        "unsettled_after_60s": late,
        "client_problems": verdict.figures["problems"],
        "audit_sound": int(sound),
        "duplicated_when_broken": caught,
        "seconds": round(took, 1),
    }
    clean = sound and not late and not verdict.said
    enough = len(died) >= (12 if quick else 200)
    return Report(figures, ok=clean and enough and caught > 0)


def _plan(quick: bool) -> list[Trap]:
    """List who dies where: each process at each of its steps, the others while it stands there."""
    chance = Random(SEED)
    points = [
        (process, step)
        for process, steps in (("worker-turns", TURNS), ("worker-calls", CALLS), ("web", WEB))
        for step in steps
    ]
    deaths = [(process, step, SELF) for process, step in points] * 2
    for victim in ("postgres", "valkey"):
        deaths += [(process, step, victim) for process, step in points]
    deaths += [(process, step, "web") for process, step in points if process != "web"]
    chance.shuffle(deaths)
    if quick:
        one_of_each = {(process, victim): (process, step, victim)
                       for process, step, victim in deaths}  # fmt: skip
        deaths = [*one_of_each.values(), *deaths[:6]]
    return [Trap(number, *death) for number, death in enumerate(deaths)]


def _rounds(traps: list[Trap]) -> Iterator[list[Trap]]:
    for start in range(0, len(traps), ROUND):
        yield traps[start : start + ROUND]


class Mortal:
    """A running Kaizen whose processes die, and those who live in it."""

    def __init__(self, *, broken: bool) -> None:
        self.stack = Stack("-m", "benchmarks.kills.up")
        self.effects = Effects(self.stack.var / "effects")
        folder = self.stack.var / "traps"
        folder.mkdir()
        self._traps = Traps(folder)
        self.stack.extra = {
            FILE_VARIABLE: str(self.effects.path),
            FOLDER_VARIABLE: str(folder),
            "KAIZEN_API_PER_MINUTE": "1000000",
            "KAIZEN_LOG_LEVEL": "WARNING",
            **({BROKEN_VARIABLE: "1"} if broken else {}),
        }
        self._lanes: list[Lane] = []
        self.died: list[Trap] = []
        self.missed: list[Trap] = []

    def __enter__(self) -> Mortal:
        """Start everything and open the lanes."""
        self.stack.__enter__()
        try:
            made = self.stack.partner("benchmarks.kills.lanes").ask("lanes", count=LANES)["lanes"]
            for number, lane in enumerate(made):
                self._lanes.append(
                    Lane(url=lambda: self.stack.url, external=number % 3 == 2, **lane)
                )
                self._lanes[-1].start()
        except BaseException:
            self.stack.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *args: object) -> None:
        """Stop everything."""
        self.stack.__exit__(None, None, None)

    def round(self, traps: list[Trap]) -> int:
        """Let each trap of a round spring; return how much was still open a minute later."""
        for lane in self._lanes:
            lane.go_on()
        for trap in traps:
            self._kill(trap)
        for lane in self._lanes:
            lane.pause()
        return self._settle()

    def leave(self) -> None:
        """End all lanes."""
        for lane in self._lanes:
            lane.leave()
        for lane in self._lanes:
            lane.join(60)

    def told(self) -> int:
        """Count the stories."""
        return len(self._stories())

    def judge(self) -> Verdict:
        """Compare what the rows say with what was done."""
        return judge(self.stack.environment["DATABASE_URL"], self.effects, self._stories())

    def _stories(self) -> list[Story]:
        return [story for lane in self._lanes for story in lane.stories]

    def _kill(self, trap: Trap) -> None:
        names = self._names()
        self._traps.set(trap)
        if not _until(lambda: self._traps.sprung(trap), COME_SECONDS) and self._traps.take_away(
            trap
        ):
            self.missed.append(trap)
            return
        if not _until(lambda: self._traps.sprung(trap), COME_SECONDS):
            raise BenchmarkFailed(f"Somebody took the trap and did not spring it: {trap}")
        old = self._traps.victim(trap)
        victim = names.get(old, trap.process if trap.victim == SELF else trap.victim)
        if not _until(lambda: self._back(victim, old), BACK_SECONDS):
            raise BenchmarkFailed(f"{victim} did not come back:\n{self.stack.said()}")
        self.died.append(trap)

    def _back(self, name: str, old: int) -> bool:
        """Whether a killed process was replaced, and its replacement works."""
        if self._pid(name) == old:
            return False
        if name.startswith("worker"):
            return (self.stack.var / f"{name}.ready").exists()
        if name == "postgres":
            return _answers(self.stack.environment["DATABASE_URL"])
        return True

    def _names(self) -> dict[int, str]:
        children = self.stack.running["children"]
        return {int(child["pid"]): name for name, child in children.items()}

    def _pid(self, name: str) -> int:
        return int(self.stack.running["children"][name]["pid"])

    def _settle(self) -> int:
        """Wait for silence; return how much is open after a minute."""
        database = self.stack.environment["DATABASE_URL"]

        def silent() -> bool:
            return not unsettled(database) and all(lane.quiet for lane in self._lanes)

        if _until(silent, SETTLE_SECONDS, pause=0.5):
            return 0
        still = unsettled(database)
        for sentence in still[:10]:
            say(f"unsettled after {SETTLE_SECONDS:.0f} s: {sentence}")
        return len(still)


def _broken() -> int:
    """Kill workers right behind an effect in a build that tries again what it does not know."""
    with Mortal(broken=True) as mortal:
        mortal.round(
            [Trap(number, "worker-calls", "after the effect", SELF) for number in range(3)]
        )
        mortal.leave()
        return mortal.judge().figures["duplicated"]


def _until(holds: Callable[[], bool], seconds: float, *, pause: float = 0.05) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def _answers(database: str) -> bool:
    try:
        psycopg.connect(database, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main("kills", measure))
