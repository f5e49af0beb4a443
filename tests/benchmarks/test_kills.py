"""The benchmark of kills stands between steps that exist, and its traps spring once."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path

import pytest

from apps.boundary import pipeline
from benchmarks.kills.broken import SEAM
from benchmarks.kills.traps import CALLS, SELF, STEPS, TURNS, WEB, Trap, Traps


@pytest.mark.parametrize("step", STEPS)
def test_each_step_is_there_to_stand_at(step: str) -> None:
    module, name, side = STEPS[step]
    assert callable(getattr(importlib.import_module(module), name))
    assert side in ("before", "after")


def test_the_build_that_has_to_be_caught_is_broken_where_an_unknown_end_is_judged() -> None:
    assert callable(getattr(pipeline, SEAM))


def test_no_process_is_waited_for_at_a_step_without_a_name() -> None:
    assert {*TURNS, *CALLS, *WEB} == STEPS.keys()


def test_a_trap_kills_whoever_comes_first_and_nobody_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    (tmp_path / "running.json").write_text('{"children": {"postgres": {"pid": 7}}}')
    folder = tmp_path / "traps"
    folder.mkdir()
    traps, trap = Traps(folder), Trap(1, "web", "judged", "postgres")
    traps.set(trap)
    traps.spring("web", "judging")
    traps.spring("worker-calls", "judged")
    assert not traps.sprung(trap)
    for _ in range(2):
        traps.spring("web", "judged")
    assert killed == [(7, signal.SIGKILL)]
    assert traps.sprung(trap)
    assert traps.victim(trap) == 7
    assert not traps.take_away(trap)


def test_a_trap_that_nobody_came_to_is_taken_away(tmp_path: Path) -> None:
    traps, trap = Traps(tmp_path), Trap(1, "web", "judged", SELF)
    traps.set(trap)
    assert traps.take_away(trap)
    traps.spring("web", "judged")
    assert not traps.sprung(trap)
