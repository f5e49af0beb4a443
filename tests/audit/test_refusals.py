"""Who was forbidden what is in the audit trail, although the request itself left nothing."""

from __future__ import annotations

import uuid
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


@pytest.mark.django_db
def test_what_is_foreign_and_what_is_missing_leave_the_same_record(client: Client) -> None:
    owner, stranger = make_member(), make_member()
    room = make_room(owner, make_agent(owner))
    client.force_login(stranger)
    foreign, missing = str(room.pk), str(uuid.uuid4())
    for ident in (foreign, missing):
        answer = client.post(
            f"/api/v1/rooms/{ident}/messages", {"text": "hello"}, content_type=JSON
        )
        assert answer.status_code == 404
    rows = AuditRow.objects.filter(action="api.not_found", actor=stranger.key).order_by("id")
    assert [row.subject.replace(foreign, "-").replace(missing, "-") for row in rows] == [
        "route:POST /api/v1/rooms/-/messages"
    ] * 2
    assert {(row.outcome, row.detail["code"]) for row in rows} == {("refused", "not_found")}


@pytest.mark.django_db
def test_a_token_in_an_address_is_in_no_record(client: Client) -> None:
    client.force_login(make_member())
    token = "t" * 43
    client.post(f"/api/v1/pauses/{token}", {}, content_type=JSON)
    assert not AuditRow.objects.filter(subject__contains=token).exists()
