"""The hot path is a counted number of statements; whoever adds one decides to."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.boundary.api.plain import PlainProposal, answer_plainly
from apps.boundary.external import open_external_run
from apps.core.wire import _Wire
from apps.rooms.models import Room

# One admitted read through the callback API, begin and commit included: the lock of the token's
# run; how things stand; the tool's own query in its savepoint; the settled call, its audit row, and
# both events with the room's position.
STATEMENTS = 10
# The lock and the look travel together, with the begin; the tool's query, with its savepoint and
# its time; the last three, with the commit. Only the end of the savepoint travels alone.
TOGETHER = [2, 3, 3]


@pytest.mark.django_db(transaction=True)
def test_an_admitted_read_through_the_callback_costs_so_many_statements(
    room: Room, member: User, django_assert_num_queries: object
) -> None:
    opened = open_external_run(room_id=room.pk, member=member, agent_slug="scribe")

    def call(proposal_id: str) -> None:
        proposal = PlainProposal("list_available_agents", {}, proposal_id)
        assert answer_plainly(f"Run {opened.token}", proposal).status == 200

    call("warm")
    with django_assert_num_queries(STATEMENTS):  # type: ignore[operator]
        call("counted")


@pytest.mark.django_db(transaction=True)
def test_what_can_travel_together_does(
    room: Room, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
    sent: list[int] = []
    real = _Wire.exchange

    def counted(wire: _Wire, connection: Any, statements: Any, *, commit: bool) -> Any:
        sent.append(len(statements))
        return real(wire, connection, statements, commit=commit)

    monkeypatch.setattr(_Wire, "exchange", counted)
    proposal = PlainProposal("list_available_agents", {}, "counted")
    assert answer_plainly(f"Run {opened.token}", proposal).status == 200
    assert sent == TOGETHER
