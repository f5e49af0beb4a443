"""Not a piece of what a person may still deny reaches a browser."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals import wishes
from apps.approvals.models import ApprovalRule
from apps.rooms.models import Room
from apps.tools.catalog import offered_tools
from apps.turns.answer import Answer
from apps.turns.provider import ArgumentsDelta, CallStarted
from tests.factories.rooms import claimed_run


def is_previewed(room: Room, agent: Agent, member: User, *, trigger: str = "member") -> bool:
    """Whether a room sees an artifact's arguments while the model writes them."""
    run = claimed_run(room, agent, member)
    run.trigger = trigger
    run.save(update_fields=["trigger"])
    answer = Answer(run=run, step=1, tools=offered_tools(run))
    try:
        answer.hear(CallStarted(index=0, call_id="c1", name="create_artifact"))
        answer.hear(ArgumentsDelta(index=0, text='{"title": "A", "body": "may be denied'))
        # Without a writer there is nothing that could carry a piece of it anywhere.
        return answer.proposals[0].preview is not None
    finally:
        answer.drop()


def test_a_write_into_the_members_own_store_is_shown_as_it_is_written(
    room: Room, agent: Agent, member: User
) -> None:
    assert is_previewed(room, agent, member)


@pytest.mark.parametrize("mode", ["always", "first_use"])
def test_what_its_member_wants_to_be_asked_about_is_not(
    room: Room, agent: Agent, member: User, mode: str
) -> None:
    wishes.choose_mode(member=member, mode=mode)
    assert not is_previewed(room, agent, member)


def test_what_the_rules_ask_about_is_not(room: Room, agent: Agent, member: User) -> None:
    ApprovalRule.objects.create(surface="artifacts", floor="first_use")
    assert not is_previewed(room, agent, member)


def test_what_a_mail_started_is_not(room: Room, agent: Agent, member: User) -> None:
    assert not is_previewed(room, agent, member, trigger="mail")
