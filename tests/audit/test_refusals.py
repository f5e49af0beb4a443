"""Who was forbidden what is in the audit trail, although the request itself left nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.audit.models import AuditRow
from tests.factories.rooms import make_agent, make_member, make_room, make_run

JSON = "application/json"


@pytest.mark.django_db
def test_a_forbidden_api_request_is_recorded_with_who_and_where(client: Client) -> None:
    owner, guest = make_member(), make_member()
    agent = make_agent(owner)
    room = make_room(owner, agent, guest)
    run = make_run(room, agent, owner)
    client.force_login(guest)
    assert client.post(f"/api/v1/runs/{run.pk}/stop", {}, content_type=JSON).status_code == 403
    row: Any = AuditRow.objects.get(action="api.forbidden")
    assert (row.actor, row.outcome) == (guest.key, "refused")
    assert row.subject == f"route:POST /api/v1/runs/{run.pk}/stop"
    assert row.detail == {"code": "forbidden"}


@pytest.mark.django_db
def test_a_request_that_was_fine_leaves_no_refusal(client: Client) -> None:
    client.force_login(make_member())
    assert client.get("/api/v1/rooms").status_code == 200
    assert not AuditRow.objects.filter(action="api.forbidden").exists()
