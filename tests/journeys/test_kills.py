"""Each process is killed once at its worst moment during a demonstration, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import psycopg
import pytest

from kaizen.supervisor.state import CLONE
from tests.stack import RunningStack

pytestmark = pytest.mark.workers

# The line of the story after which, and how many seconds later, the process dies.
WORST_MOMENTS = {
    "web": ("Ask", 0.0),  # while both members watch through it
    "worker-turns": ("Furnish", 0.5),  # while the model speaks
    "worker-calls": ("Refuse    tomas", 0.15),  # while the approved call runs
    "sandboxd": ("Refuse    an untested", 0.1),  # while the tests run
    "beat": ("Ask", 0.0),  # while only a sweep could help
    "postgres": ("Furnish", 0.4),  # in the middle of the turn's transactions
    "valkey": ("Ask", 0.0),  # between the question and its bell
}

UNSETTLED = """
    SELECT count(*) FROM runs_call c
    WHERE c.state <> 'settled' AND NOT EXISTS (
        SELECT 1 FROM approvals_approvalrequest a WHERE a.call_id = c.id AND a.state = 'pending')
"""
UNFINISHED = """
    SELECT count(*) FROM runs_run r
    WHERE r.state <> 'finished' AND NOT EXISTS (
        SELECT 1 FROM runs_call c JOIN approvals_approvalrequest a ON a.call_id = c.id
        WHERE c.run_id = r.id AND a.state = 'pending')
"""


@pytest.fixture
def stack(mortal_stack: RunningStack) -> RunningStack:
    if not mortal_stack.runs:
        mortal_stack.start()
    return mortal_stack


class Demo:
    """One telling of the story, whose lines can be waited for."""

    def __init__(self, stack: RunningStack) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(CLONE / "manage.py"),
                "demo",
                "--running",
                str(stack.var / "running.json"),
            ],
            env=os.environ | stack.environment,
            cwd=CLONE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    def wait_for_line(self, start: str) -> None:
        until = time.monotonic() + 60
        while not any(line.strip().startswith(start) for line in self.lines):
            assert time.monotonic() < until, "\n".join(self.lines)
            assert self._process.poll() is None, "\n".join(self.lines)
            time.sleep(0.01)

    def end(self) -> int:
        code = self._process.wait(150)
        self._reader.join(5)
        return code

    @property
    def said(self) -> str:
        return "\n".join(self.lines)


@pytest.mark.parametrize("name", WORST_MOMENTS)
def test_a_killed_process_costs_at_most_one_honest_sentence(stack: RunningStack, name: str) -> None:
    line, delay = WORST_MOMENTS[name]
    demo = Demo(stack)
    demo.wait_for_line(line)
    time.sleep(delay)
    old = stack.kill(name)
    code = demo.end()
    assert code == 0 or "The story stops here: " in demo.said, demo.said
    assert "Traceback" not in demo.said
    stack.wait_for_new(name, old)
    everything_settles(stack, within=60)

    again = Demo(stack)
    assert again.end() == 0, again.said
    assert audit_is_sound(stack)


def everything_settles(stack: RunningStack, *, within: float) -> None:
    """Wait until no run and no call is left hanging, other than for a person."""
    until = time.monotonic() + within
    counts: Any = None
    while time.monotonic() < until:
        try:
            with psycopg.connect(stack.environment["DATABASE_URL"], connect_timeout=3) as database:
                counts = [database.execute(q).fetchone()[0] for q in (UNSETTLED, UNFINISHED)]
            if counts == [0, 0]:
                return
        except psycopg.OperationalError:
            counts = "PostgreSQL is not back"
        time.sleep(0.3)
    raise AssertionError(f"unsettled calls and unfinished runs: {counts}")


def audit_is_sound(stack: RunningStack) -> bool:
    return stack.manage("audit", "verify").returncode == 0
