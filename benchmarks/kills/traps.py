"""Where can a process be made to die? Between every two steps that a call takes.

Wrappers around the product's own steps, in the benchmark's own worker and web entries alone. A trap
is a small file that names a process, a step and a victim; whoever passes the step first takes the
file and kills the victim, which may be itself.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE_VARIABLE = "KAIZEN_BENCHMARK_PROCESS"
FOLDER_VARIABLE = "KAIZEN_BENCHMARK_TRAPS"
SELF = "self"

_PIPELINE = "apps.boundary.pipeline"
_ENGINE = "apps.turns.engine"
_BELL = "apps.core.queue"

# The name of a step, what it stands around, and on which side of that.
STEPS: dict[str, tuple[str, str, str]] = {
    "claimed": (_ENGINE, "claim_run", "after"),
    "frozen": (_ENGINE, "freeze", "after"),
    "asking the model": ("apps.turns.asking", "listen", "before"),
    "the model answered": ("apps.turns.asking", "listen", "after"),
    "journalled": ("apps.turns.storing", "append_journal", "after"),
    "proposed": ("apps.turns.storing", "propose", "after"),
    "parked": ("apps.turns.calls", "park_run", "after"),
    "finished": ("apps.turns.storing", "finish_run", "after"),
    "proposed from outside": ("apps.boundary.external", "introduce", "after"),
    "finished from outside": ("apps.boundary.external", "finish_run", "after"),
    "judging": (_PIPELINE, "judge", "before"),
    "judged": (_PIPELINE, "judge", "after"),
    "asked": (_PIPELINE, "ask", "after"),
    "handed over": (_PIPELINE, "hand_over", "after"),
    "approved": ("apps.approvals.services", "approve", "after"),
    "consumed": (_PIPELINE, "consume", "after"),
    "announced": (_PIPELINE, "announce", "after"),
    "executing": (_PIPELINE, "execute", "before"),
    "before the effect": ("benchmarks.outside", "before_effect", "before"),
    "after the effect": ("benchmarks.outside", "after_effect", "before"),
    "executed": (_PIPELINE, "execute", "after"),
    "projected": (_PIPELINE, "project", "after"),
    "settled before commit": (_PIPELINE, "record", "after"),
    "between commit and bell": (_BELL, "_send", "before"),
    "after the bell": (_BELL, "_send", "after"),
}
TURNS = (
    "claimed", "frozen", "asking the model", "the model answered", "journalled", "proposed",
    "parked", "finished", "judging", "judged", "asked", "handed over", "consumed", "executing",
    "executed", "projected", "settled before commit", "between commit and bell", "after the bell",
)  # fmt: skip
CALLS = (
    "judging", "judged", "consumed", "announced", "executing", "before the effect",
    "after the effect", "executed", "projected", "settled before commit",
    "between commit and bell", "after the bell",
)  # fmt: skip
WEB = (
    "approved", "proposed from outside", "finished from outside", "judging", "judged", "asked",
    "handed over", "consumed", "executing", "executed", "projected", "settled before commit",
    "between commit and bell", "after the bell",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trap:
    """Whoever in this process passes this step kills that victim."""

    number: int
    process: str
    step: str
    victim: str

    def __str__(self) -> str:
        victim = self.process if self.victim == SELF else self.victim
        return f"{victim} dies while {self.process} is at {self.step!r}"


class Traps:
    """The folder in which traps lie open, and in which sprung ones are left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, trap: Trap) -> None:
        """Lay a trap."""
        fresh = self._folder / f"{trap.number}.new"
        fresh.write_text(json.dumps(asdict(trap)))
        fresh.rename(self._open(trap))

    def sprung(self, trap: Trap) -> bool:
        """Whether somebody died of it."""
        # Written last, right before the blow.
        return self._victim(trap).exists()

    def victim(self, trap: Trap) -> int:
        """The process id of who died of it; a web server may be one of several."""
        return int(self._victim(trap).read_text())

    def take_away(self, trap: Trap) -> bool:
        """Take a trap away that nobody came to; False says that somebody just did."""
        try:
            self._open(trap).unlink()
        except FileNotFoundError:
            return False
        return True

    def spring(self, process: str, step: str) -> None:
        """Die, or kill, if a trap lies here."""
        for place in self._folder.glob(f"*.{process}.open"):
            try:
                trap = Trap(**json.loads(place.read_text()))
                if trap.step != step:
                    continue
                # Whoever moves the file has it: one trap, one death.
                place.rename(self._sprung(trap))
            except FileNotFoundError:
                continue
            running = json.loads((self._folder.parent / "running.json").read_text())
            pid = os.getpid()
            if trap.victim != SELF:
                pid = running["children"][trap.victim]["pid"]
            told = self._folder / f"{trap.number}.dying"
            told.write_text(str(pid))
            # There at once and whole: somebody reads it while it comes to be.
            told.rename(self._victim(trap))
            os.kill(pid, signal.SIGKILL)

    def _open(self, trap: Trap) -> Path:
        return self._folder / f"{trap.number}.{trap.process}.open"

    def _victim(self, trap: Trap) -> Path:
        return self._folder / f"{trap.number}.victim"

    def _sprung(self, trap: Trap) -> Path:
        return self._folder / f"{trap.number}.sprung"


def lay_out() -> None:
    """Wrap every step in this process; a step that is not there is an error of the benchmark."""
    traps = Traps(Path(os.environ[FOLDER_VARIABLE]))
    process = os.environ[HERE_VARIABLE]
    for step, (module_name, name, side) in STEPS.items():
        module = importlib.import_module(module_name)
        setattr(module, name, _wrapped(getattr(module, name), traps, process, step, side))


def _wrapped(
    function: Callable[..., Any], traps: Traps, process: str, step: str, side: str
) -> Callable[..., Any]:
    @functools.wraps(function)
    def passing(*args: Any, **kwargs: Any) -> Any:
        if side == "before":
            traps.spring(process, step)
        result = function(*args, **kwargs)
        if side == "after":
            traps.spring(process, step)
        return result

    return passing
