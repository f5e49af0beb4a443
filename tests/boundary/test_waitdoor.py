"""Plain questions where a call stands have a door of their own; its answers are as the view's."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.boundary import external
from apps.boundary.api.plain import PATH
from apps.boundary.external import Opened, open_external_run
from apps.boundary.services import stop_run
from apps.boundary.waiters import the_waiters
from apps.rooms.models import Room
from apps.runs.models import Call
from kaizen import waitdoor
from kaizen.asgi import application
from tests.factories.asgi import through_server
from tests.factories.questions import make_question

pytestmark = pytest.mark.django_db(transaction=True)

BY_VIEW = {"DPoP": "a proof, which a token that is bound to nothing does not need"}


@pytest.fixture
def open_call(opened: Opened) -> Call:
    """A call of the run that waits for somebody's yes."""
    return Call.objects.get(pk=make_question(opened.run).call_id)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Each look that was taken at the door: whether the question had been counted before."""
    looks: list[bool] = []
    real = waitdoor.look_plainly

    def noting(authorization: str, call_id: uuid.UUID, *, counted: bool) -> Any:
        looks.append(counted)
        return real(authorization, call_id, counted=counted)

    monkeypatch.setattr(waitdoor, "look_plainly", noting)
    return looks


def ask(opened: Opened, call_id: Any, query: str = "", *, body: str = "", **headers: str) -> Any:
    named = {"Authorization": f"Run {opened.token}", **headers}
    return through_server("GET", f"{PATH}/{call_id}{query}", body, named)


def propose(opened: Opened) -> str:
    body = '{"name": "list_available_agents", "arguments": {}, "proposal_id": "1"}'
    answer = through_server("POST", PATH, body, {"Authorization": f"Run {opened.token}"})
    return str(answer.json()["call"])


def test_a_plain_question_is_answered_at_the_door(opened: Opened, taken: list[bool]) -> None:
    answer = ask(opened, propose(opened), "?wait=25")
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ok")
    assert taken == [False]


def test_whoever_does_not_wait_is_told_how_it_stands(
    opened: Opened, open_call: Call, taken: list[bool]
) -> None:
    answer = ask(opened, open_call.pk)
    assert (answer.status_code, answer.json()["waits_for_approval"]) == (202, True)
    assert taken == [False]


def test_whoever_waits_is_told_of_the_end_and_counted_once(
    opened: Opened, open_call: Call, member: User, taken: list[bool]
) -> None:
    def settle() -> None:
        try:
            stop_run(run_id=opened.run.pk, member=member)
        finally:
            connection.close()

    later = threading.Timer(0.3, settle)
    later.start()
    answer = ask(opened, open_call.pk, "?wait=25")
    later.join()
    # The token died with its run, as it is looked up again at the end.
    assert (answer.status_code, answer.json()["code"]) == (401, "bad_run_token")
    assert taken == [False, True]


def test_a_wait_that_is_over_tells_how_it_stands(
    opened: Opened, open_call: Call, taken: list[bool]
) -> None:
    assert ask(opened, open_call.pk, "?wait=0.1").status_code == 202
    assert taken == [False, True]


@pytest.mark.parametrize(
    ("query", "headers", "body", "status"),
    [
        ("?wait=25.1", {}, "", 422),
        ("?wait=-1", {}, "", 422),
        ("?wait=soon", {}, "", 422),
        ("?wait=0&wait=0", {}, "", 422),
        ("?more=1", {}, "", 422),
        ("", {"Accept": "text/html"}, "", 406),
        ("", {"Host": "elsewhere.example"}, "", 400),
        ("", {}, "{}", 200),
        ("", {"DPoP": "proof"}, "", 200),
    ],
)
def test_what_is_not_plain_is_answered_by_the_view(
    opened: Opened,
    taken: list[bool],
    query: str,
    headers: dict[str, str],
    body: str,
    status: int,
) -> None:
    assert ask(opened, propose(opened), query, body=body, **headers).status_code == status
    assert taken == []


@pytest.mark.parametrize("settled", [True, False])
def test_the_door_and_the_view_answer_alike(opened: Opened, open_call: Call, settled: bool) -> None:
    call = propose(opened) if settled else open_call.pk
    ours, theirs = ask(opened, call), ask(opened, call, **BY_VIEW)
    assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())
    own = {"x-correlation-id"}
    assert {k: v for k, v in ours.headers.items() if k not in own} == {
        k: v for k, v in theirs.headers.items() if k not in own
    }
    assert len(ours.headers["x-correlation-id"]) == 32


@pytest.mark.parametrize(
    ("token", "status", "code"), [("", 404, "not_found"), ("wrong", 401, "bad_run_token")]
)
def test_a_problem_has_the_same_form_from_both(
    opened: Opened, token: str, status: int, code: str
) -> None:
    asking = Opened(run=opened.run, token=token or opened.token, expires_at=opened.expires_at)
    unknown = uuid.uuid4()
    ours, theirs = ask(asking, unknown), ask(asking, unknown, **BY_VIEW)
    assert ours.status_code == theirs.status_code == status
    assert ours.json()["code"] == code
    assert ours.headers["content-type"] == "application/problem+json"
    own = {"correlation_id"}
    assert {k: v for k, v in ours.json().items() if k not in own} == {
        k: v for k, v in theirs.json().items() if k not in own
    }
    assert ours.json()["correlation_id"] == ours.headers["x-correlation-id"]


def test_whoever_asks_for_what_is_not_theirs_is_named_in_the_record(
    opened: Opened, member: User
) -> None:
    for view in ({}, BY_VIEW):
        assert ask(opened, uuid.uuid4(), **view).status_code == 404
    actors = AuditRow.objects.filter(subject__startswith="route:GET").values_list(
        "actor", flat=True
    )
    assert list(actors) == [member.key, member.key]


def test_what_breaks_at_the_door_is_answered_by_the_view(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise LookupError("The door is broken.")

    monkeypatch.setattr(waitdoor, "look_plainly", broken)
    answer = ask(opened, propose(opened), "?wait=1")
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ok")


def test_a_call_of_another_run_is_as_unknown_as_none(
    opened: Opened, open_call: Call, room: Room, member: User
) -> None:
    other = open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
    assert ask(other, open_call.pk).status_code == 404
    assert ask(opened, open_call.pk).status_code == 202


def test_a_token_that_is_bound_to_a_key_opens_nothing_without_its_proof(
    room: Room, member: User
) -> None:
    bound = open_external_run(room_id=room.pk, member=member, agent_slug="scribe", key="k" * 43)
    assert ask(bound, uuid.uuid4()).status_code == 401


def test_too_many_questions_of_a_run_are_turned_away_with_a_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, taken: list[bool]
) -> None:
    monkeypatch.setattr(external, "CALLS_PER_MINUTE", 2)
    call = propose(opened)
    assert ask(opened, call).status_code == 200
    answer = ask(opened, call)
    assert (answer.status_code, answer.json()["code"]) == (429, "throttled")
    assert int(answer.headers["retry-after"]) > 0
    row = AuditRow.objects.get(action="request.throttled")
    assert row.detail == {"code": "throttled", "limit": "callback", "of": opened.run.key}
    assert len(taken) == 2


async def test_whoever_hangs_up_gives_the_place_free_and_is_sent_nothing(
    opened: Opened, open_call: Call
) -> None:
    sent: list[Any] = []
    hung_up, listening = asyncio.Event(), asyncio.Event()
    begun = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if begun:
            return begun.pop()
        # Listened for only beside the wait, which has its place by then.
        listening.set()
        await hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": f"{PATH}/{open_call.pk}",
        "query_string": b"wait=25",
        "headers": [(b"host", b"testserver"), (b"authorization", f"Run {opened.token}".encode())],
    }
    serving = asyncio.create_task(application(scope, receive, send))
    await asyncio.wait_for(listening.wait(), 10)
    assert the_waiters()._calls
    hung_up.set()
    await asyncio.wait_for(serving, 10)
    assert sent == []
    assert not the_waiters()._calls
