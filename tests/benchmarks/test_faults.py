"""Every way in which the benchmark of faults attacks the boundary, once, against the services."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from apps.tools import catalog, packaged
from benchmarks.effects import Effects
from benchmarks.faults import authority, receipts, siege
from benchmarks.faults.broken import break_the_receipt_check
from benchmarks.faults.world import Admitted, World
from benchmarks.outside import install

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY = "http://127.0.0.1:1"
WAYS = [
    way
    for module in (receipts, authority, siege)
    for way in vars(importlib.import_module(module.__name__)).values()
    if callable(way) and getattr(way, "is_attempt", False)
]


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    # What is put in their place for one test goes away with it.
    monkeypatch.setattr(catalog, "BUILTIN_TOOLS", catalog.BUILTIN_TOOLS)
    monkeypatch.setattr(packaged, "call_python_tool", packaged.call_python_tool)
    return install(tmp_path / "effects")


@pytest.fixture
def world(transactional_db: None, effects: Effects) -> World:
    return World("w", web=NOBODY)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_forbidden_is_not_done(
    way: Callable[[World, Random], None], world: World, effects: Effects
) -> None:
    way(world, Random(1))
    done = effects.by_mark()
    assert not [mark for mark in done if not mark.startswith("allowed-")]
    assert all(count == 1 for count in done.values())


def test_the_same_attack_finds_a_boundary_without_its_receipt_check(
    world: World, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.approvals import services as ledger
    from apps.boundary.steps import decide as step

    monkeypatch.setattr(step, "decide", step.decide)
    monkeypatch.setattr(ledger, "spend_receipt", ledger.spend_receipt)
    break_the_receipt_check()
    with pytest.raises(Admitted):
        receipts.a_worker_looks_before_anybody_answered(world, Random(1))
    assert effects.lines()
