"""The hot path is a counted number of statements; whoever adds one decides to."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.boundary.external import open_external_run
from apps.rooms.models import Room

# One admitted read through the callback API, begin and commit included: the token's run; its lock;
# how things stand; the tool's own query in its savepoint; the settled call, its audit row, and
# both events with the room's position.
STATEMENTS = 11


@pytest.mark.django_db(transaction=True)
def test_an_admitted_read_through_the_callback_costs_so_many_statements(
    room: Room, member: User, django_assert_num_queries: object
) -> None:
    opened = open_external_run(room_id=room.pk, member=member, agent_slug="scribe")

    def call(proposal_id: str) -> None:
        body = {"name": "list_available_agents", "arguments": {}, "proposal_id": proposal_id}
        answer = Client().post(
            "/api/v1/callback/calls",
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Run {opened.token}"},
        )
        assert answer.status_code == 200

    call("warm")
    with django_assert_num_queries(STATEMENTS):  # type: ignore[operator]
        call("counted")
