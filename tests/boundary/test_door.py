"""Plain proposals have a door of their own; what comes through it is as from the view."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from apps.audit.models import AuditRow
from apps.boundary import external
from apps.boundary.api.plain import MAX_PLAIN_BYTES, PATH, read_plainly
from apps.boundary.external import Opened
from apps.core import afterwards
from apps.rooms import relay
from apps.runs.models import Call
from kaizen import door
from tests.factories.asgi import through_server

pytestmark = pytest.mark.django_db(transaction=True)

PLAIN = {"name": "list_available_agents", "arguments": {}, "proposal_id": "1"}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the door itself answered."""
    answered: list[Any] = []
    real = door.answer_plainly

    def noting(authorization: str, proposal: Any, **proof: str) -> Any:
        answered.append(proposal)
        return real(authorization, proposal, **proof)

    monkeypatch.setattr(door, "answer_plainly", noting)
    return answered


def send(opened: Opened, body: Any, *, query: str = "", **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return through_server(
        "POST", PATH + query, raw, {"Authorization": f"Run {opened.token}", **named}
    )


def test_a_plain_proposal_is_taken_at_the_door(opened: Opened, taken: list[Any]) -> None:
    answer = send(opened, PLAIN)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ok")
    assert len(taken) == 1


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({"Content_Type": "text/plain"}, "", 415),
        ({"Accept": "text/html"}, "", 406),
        ({"Host": "elsewhere.example"}, "", 400),
        ({}, "?wait=1", 200),
        ({"Content_Type": "application/json; charset=utf-8"}, "", 200),
    ],
)
def test_what_is_not_plain_is_answered_by_the_view(
    opened: Opened, taken: list[Any], headers: dict[str, str], query: str, status: int
) -> None:
    answer = send(opened, PLAIN, query=query, **headers)
    assert answer.status_code == status
    assert bool(taken) == ("charset" in str(headers))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "malformed_json"),
        (b'{"name": "a", "name": "b"}', 400, "malformed_json"),
        ([], 422, "invalid"),
        ({**PLAIN, "name": ""}, 422, "invalid"),
        ({**PLAIN, "name": "x" * 65}, 422, "invalid"),
        ({**PLAIN, "arguments": None}, 422, "invalid"),
        ({**PLAIN, "proposal_id": "x" * 201}, 422, "invalid"),
        ({**PLAIN, "proposal_id": "a\nb"}, 422, "invalid"),
        ({**PLAIN, "more": 1}, 422, "invalid"),
        ({**PLAIN, "arguments": {"text": "x" * 3_000_000}}, 413, "too_large"),
    ],
)
def test_a_body_that_is_wrong_is_told_so_by_the_view(
    opened: Opened, taken: list[Any], body: Any, status: int, code: str
) -> None:
    answer = send(opened, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert taken == []
    assert not Call.objects.exists()


def test_a_large_proposal_goes_through_the_view_whole(opened: Opened, taken: list[Any]) -> None:
    text = "x" * MAX_PLAIN_BYTES
    arguments = {"title": "Long", "kind": "markdown", "body": text}
    answer = send(opened, {**PLAIN, "name": "create_artifact", "arguments": arguments})
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ok")
    assert taken == []


def test_the_door_and_the_view_put_the_same_headers_on_their_answers(opened: Opened) -> None:
    ours, theirs = send(opened, PLAIN), send(opened, PLAIN, query="?by=view")
    assert ours.json() == theirs.json()
    own = {"x-correlation-id"}
    assert {k: v for k, v in ours.headers.items() if k not in own} == {
        k: v for k, v in theirs.headers.items() if k not in own
    }
    assert len(ours.headers["x-correlation-id"]) == 32


def test_a_problem_has_the_same_form_from_both(opened: Opened) -> None:
    wrong = Opened(run=opened.run, token="wrong", expires_at=opened.expires_at)
    ours, theirs = send(wrong, PLAIN), send(wrong, PLAIN, query="?by=view")
    assert ours.status_code == theirs.status_code == 401
    assert ours.headers["content-type"] == "application/problem+json"
    own = {"correlation_id"}
    assert {k: v for k, v in ours.json().items() if k not in own} == {
        k: v for k, v in theirs.json().items() if k not in own
    }
    assert ours.json()["correlation_id"] == ours.headers["x-correlation-id"]


def test_too_many_calls_of_a_run_are_turned_away_with_a_time(
    opened: Opened, taken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "CALLS_PER_MINUTE", 1)
    assert send(opened, PLAIN).status_code == 200
    answer = send(opened, PLAIN)
    assert (answer.status_code, answer.json()["code"]) == (429, "throttled")
    assert int(answer.headers["retry-after"]) > 0
    row = AuditRow.objects.get(action="request.throttled")
    assert row.detail == {"code": "throttled", "limit": "callback", "of": opened.run.key}
    assert len(taken) == 2


def test_a_door_behind_https_only_sends_plain_http_there(
    opened: Opened, taken: list[Any], settings: Any
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    body = json.dumps(PLAIN)
    headers = {"Authorization": f"Run {opened.token}"}
    assert through_server("POST", PATH, body, headers, scheme="https").status_code == 200
    assert len(taken) == 1


@pytest.mark.parametrize(
    "raw", [b"", b"1", b"null", b'{"name": 1, "arguments": 1, "proposal_id": 1}']
)
def test_nothing_is_plain_that_is_no_proposal(raw: bytes) -> None:
    assert read_plainly(raw) is None


def test_the_room_hears_of_a_call_although_nobody_waits_for_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    rung = threading.Event()
    tell = door._tell

    def telling(*told: Any) -> None:
        order.append("answer")
        tell(*told)

    def ringing(room_id: str, message: dict[str, Any]) -> None:
        order.append("bell")
        rung.set()

    monkeypatch.setattr(door, "_tell", telling)
    monkeypatch.setattr(relay, "_publish", ringing)
    assert send(opened, PLAIN).json()["outcome"] == "ok"
    assert rung.wait(10)
    assert sorted(order) == ["answer", "bell"]


def test_a_fault_after_the_answer_is_said_and_costs_the_answer_nothing(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    heard = threading.Event()

    def error(event: str, **_: Any) -> None:
        said.append(event)
        heard.set()

    def broken(room_id: str, message: dict[str, Any]) -> None:
        raise LookupError("The bell is broken.")

    monkeypatch.setattr(afterwards.log, "error", error)
    monkeypatch.setattr(relay, "_publish", broken)
    assert send(opened, PLAIN).json()["outcome"] == "ok"
    assert heard.wait(10)
    assert said == ["afterwards_broke"]
