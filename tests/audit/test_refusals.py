"""Who was forbidden what is in the audit trail, although the request itself left nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from apps.accounts import services
from apps.audit.models import AuditRow
from apps.core.throttles import Limit
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


@pytest.mark.django_db
def test_whoever_comes_too_often_leaves_one_row_for_each_window(
    client: Client, settings: Any
) -> None:
    settings.KAIZEN_API_PER_MINUTE = 2
    member, other = make_member(), make_member()
    for one in (member, other):
        client.force_login(one)
        answers = [client.get("/api/v1/auth/me").status_code for _ in range(6)]
        assert answers == [200, 200, 429, 429, 429, 429]
    rows = AuditRow.objects.filter(action="request.throttled").order_by("id")
    assert [(row.actor, row.subject, row.outcome) for row in rows] == [
        (one.key, "route:GET /api/v1/auth/me", "refused") for one in (member, other)
    ]
    assert rows[0].detail == {"code": "throttled", "limit": "api", "of": member.key}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("door", "how"),
    [
        ("/api/v1/auth/token", {"content_type": JSON}),
        ("/sign-in/", {}),
        ("/admin/login/", {}),
    ],
)
def test_guessing_too_often_leaves_one_row_and_no_typed_word(
    client: Client, monkeypatch: pytest.MonkeyPatch, door: str, how: dict[str, str]
) -> None:
    monkeypatch.setattr(services, "FAILURES_BY_NAME", Limit(f"t-{uuid.uuid4().hex}", 2, 60))
    for _ in range(5):
        client.post(door, {"username": "hunter2", "password": "a wrong secret"}, **how)
    row: Any = AuditRow.objects.get(action="request.throttled")
    assert (row.actor, row.subject) == ("user:unknown", f"route:POST {door}")
    assert "of" not in row.detail
    assert not AuditRow.objects.filter(detail__icontains="hunter2").exists()
