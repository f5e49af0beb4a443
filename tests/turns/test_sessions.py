"""The sessions of a run end before its last word is said, and one that does not replaces it."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Run
from apps.sandbox.models import ToolSession
from apps.sandbox.session_program import SessionPlan
from apps.sandbox.sessions import call_in_session
from apps.turns.engine import run_turn
from tests.factories.rooms import make_run
from tests.sandbox.test_sessions import CALL, plan, python
from tests.sandboxd.conftest import daemon, sandbox_home
from tests.sandboxd.daemon import Daemon
from tests.turns.fake_model import FakeModel

__all__ = ["daemon", "sandbox_home"]
pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(settings: Any, daemon: Daemon, room: Room, agent: Agent, member: User) -> Run:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    return make_run(room, agent, member)


def begin(run: Run, of: SessionPlan) -> None:
    call_in_session(run_id=run.pk, plan=of, command=python(CALL, {"say": "x"}))


def ended(run: Run) -> tuple[str, str, list[str]]:
    """How the run ended, and what its agent said."""
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    said = RoomEvent.objects.filter(kind="message.posted", data__author__kind="agent")
    return run.outcome, run.explanation, [event.data["text"] for event in said]


def test_a_session_has_ended_when_the_answer_is_said(run: Run, model: FakeModel) -> None:
    begin(run, plan())
    model.says("It works.")
    assert ended(run) == ("completed", "", ["It works."])
    assert ToolSession.objects.get().state == "closed"


def test_a_session_that_was_not_cleaned_up_replaces_the_answer(run: Run, model: FakeModel) -> None:
    begin(run, plan(stop="import sys; sys.exit(4)"))
    model.says("It works.")
    outcome, why, said = ended(run)
    assert (outcome, said) == ("failed", [])
    assert "exit code 4" in why
    assert ToolSession.objects.get().state == "failed"


def test_a_supervisor_that_is_away_replaces_the_answer_and_leaves_the_rest_to_the_sweep(
    run: Run, model: FakeModel, settings: Any, daemon: Daemon
) -> None:
    begin(run, plan())
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.folder / "nobody")
    model.says("It works.")
    outcome, why, said = ended(run)
    assert (outcome, said) == ("failed", [])
    assert "did not end" in why
    assert ToolSession.objects.get().state == "open"
