"""A run whose agent may send letters, which are counted outside the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.domain.tooling import Effect
from apps.runs.models import Run
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(
        monkeypatch,
        outside_tool(letters.handler),
        outside_tool(letters.handler, name="send_money", effect=Effect.SENSITIVE),
        outside_tool(letters.handler, name="send_report", needs_approval_when_unattended=True),
    )
    return letters


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def guest(db: Any) -> User:
    return make_member("tomas")


@pytest.fixture
def run(member: User, guest: User, letters: Letters) -> Run:
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent, guest), agent, member)
