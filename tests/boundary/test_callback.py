"""Another runtime under the boundary: a token for one run, and the same six steps."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import AsyncClient, Client

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.boundary import external, pipeline
from apps.boundary.lost import end_lost_run, lost_runs
from apps.boundary.services import decide_approval, stop_run
from apps.core.errors import Conflict
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, Run
from apps.sandbox.models import ToolSession
from tests.factories.asgi import through_server
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_agent, make_member, make_room, make_run

pytestmark = pytest.mark.django_db(transaction=True)

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}
PAST = "2020-01-01T00:00Z"
JSON = "application/json"


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def room(member: User, letters: Letters) -> Room:
    return make_room(member, make_agent(member, slug="scribe"), make_member("tomas"))


class Runtime:
    """What somebody else's agent loop does."""

    def __init__(self, room: Room, member: User, *, through_server: bool = False) -> None:
        self.through_server = through_server
        client = Client()
        client.force_login(member)
        answer = client.post(
            f"/api/v1/rooms/{room.pk}/runs", {"agent": "scribe"}, content_type="application/json"
        )
        assert answer.status_code == 201, answer.content
        self.opened = answer.json()
        self.token = self.opened["token"]
        self.run = Run.objects.get(pk=self.opened["run"])

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        url, raw = f"/api/v1/callback/{path}", "" if body is None else json.dumps(body)
        headers = {"Authorization": f"Run {self.token}"}
        if self.through_server:
            answer: Any = through_server(method, url, raw, headers)
        else:
            answer = Client().generic(
                method, url, raw, content_type="application/json", headers=headers
            )
        return answer.status_code, answer.json()

    def call(self, name: str, arguments: Any, proposal_id: str = "1") -> tuple[int, dict[str, Any]]:
        body = {"name": name, "arguments": arguments, "proposal_id": proposal_id}
        return self.send("POST", "calls", body)


@pytest.fixture(params=["view", "server"])
def runtime(request: pytest.FixtureRequest, room: Room, member: User) -> Runtime:
    # Through Django alone, and as the web server does it, where plain proposals have a door of
    # their own: nobody can tell which of them answered.
    return Runtime(room, member, through_server=request.param == "server")


def test_the_catalog_is_frozen_and_bound_by_a_digest(runtime: Runtime) -> None:
    status, catalog = runtime.send("GET", "run")
    assert status == 200
    assert catalog["catalog_digest"] == runtime.opened["catalog_digest"]
    assert "create_artifact" in catalog["tools"]


def test_the_token_is_stored_only_as_a_hash(runtime: Runtime) -> None:
    assert runtime.token not in json.dumps(list(Run.objects.values()), default=str)


def test_a_write_of_ours_is_done_in_one_request(runtime: Runtime) -> None:
    status, call = runtime.call("create_artifact", NOTE)
    assert (status, call["state"], call["outcome"]) == (200, "settled", "ok")
    assert Artifact.objects.get().title == "A note"


def test_the_same_proposal_again_is_the_same_call(runtime: Runtime) -> None:
    first = runtime.call("create_artifact", NOTE)
    assert runtime.call("create_artifact", NOTE) == first
    assert Artifact.objects.count() == 1
    status, problem = runtime.call("create_artifact", {**NOTE, "body": "other"})
    assert (status, problem["code"], problem["field"]) == (409, "proposal_changed", "proposal_id")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "search_about", "arguments": {}}, "proposal_id"),
        ({"name": "search_about", "arguments": {}, "proposal_id": ""}, "proposal_id"),
        ({"name": 5, "arguments": {}, "proposal_id": "1"}, "name"),
        ({"name": "x", "arguments": {}, "proposal_id": "1", "fence": 9}, "fence"),
    ],
)
def test_a_malformed_proposal_names_its_field_and_leaves_nothing(
    runtime: Runtime, body: dict[str, Any], field: str
) -> None:
    status, problem = runtime.send("POST", "calls", body)
    assert status == 422
    assert field in json.dumps(problem)
    assert not Call.objects.exists()


def test_arguments_that_are_no_object_are_a_refused_call(runtime: Runtime) -> None:
    status, call = runtime.call("create_artifact", ["a"])
    assert (status, call["outcome"], call["reason"]) == (200, "refused", "invalid_arguments")


@pytest.mark.parametrize("token", ["", "wrong", "x" * 500])
def test_an_unknown_token_opens_nothing(runtime: Runtime, token: str) -> None:
    runtime.token = token
    status, problem = runtime.call("create_artifact", NOTE)
    assert (status, problem["code"]) == (401, "bad_run_token")


def test_an_expired_token_opens_nothing_and_its_run_is_ended(runtime: Runtime) -> None:
    Run.objects.update(token_expires_at=PAST)
    assert runtime.call("create_artifact", NOTE)[0] == 401
    assert list(lost_runs(10)) == [runtime.run.pk]
    end_lost_run(run_id=runtime.run.pk)
    runtime.run.refresh_from_db()
    assert (runtime.run.state, runtime.run.outcome) == ("finished", "failed")


def test_a_members_own_token_does_not_open_the_callback(runtime: Runtime, member: User) -> None:
    client = Client()
    client.force_login(member)
    assert client.get("/api/v1/callback/run").status_code == 401


def test_the_token_dies_with_the_run(runtime: Runtime, member: User) -> None:
    stop_run(run_id=runtime.run.pk, member=member)
    assert runtime.call("create_artifact", NOTE)[0] == 401


def test_a_run_sees_only_its_own_calls(room: Room, member: User, runtime: Runtime) -> None:
    call = runtime.call("create_artifact", NOTE)[1]["call"]
    other = Runtime(room, member)
    assert other.send("GET", f"calls/{call}")[0] == 404
    assert runtime.send("GET", f"calls/{call}")[0] == 200


def test_a_call_that_asks_waits_for_its_member_and_then_runs_once(
    runtime: Runtime, member: User, letters: Letters
) -> None:
    status, call = runtime.call("send_letter", {"to": "anna"})
    assert (status, call["state"], call["waits_for_approval"]) == (202, "waiting", True)
    assert letters.sent == []
    request = ApprovalRequest.objects.get()
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )
    pipeline.execute_waiting(call_id=call["call"], executor="worker")
    status, call = runtime.send("GET", f"calls/{call['call']}")
    assert (status, call["outcome"]) == (200, "ok")
    assert len(letters.sent) == 1


async def test_a_wait_ends_when_the_call_settles(
    runtime: Runtime, member: User, letters: Letters
) -> None:
    from asgiref.sync import sync_to_async

    _, call = await sync_to_async(runtime.call)("send_letter", {"to": "anna"})
    client = AsyncClient()

    async def wait() -> Any:
        return await client.get(
            f"/api/v1/callback/calls/{call['call']}?wait=20",
            headers={"authorization": f"Run {runtime.token}"},
        )

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    request = await ApprovalRequest.objects.aget()
    await sync_to_async(decide_approval)(
        approval_id=request.pk, member=member, approve=False, comment=""
    )
    answer = await asyncio.wait_for(waiting, 10)
    assert answer.status_code == 200
    assert answer.json()["outcome"] == "denied"


@pytest.mark.parametrize("wait", ["-1", "26", "soon", "nan"])
def test_a_wait_has_bounds(runtime: Runtime, wait: str) -> None:
    call = runtime.call("create_artifact", NOTE)[1]["call"]
    status, problem = runtime.send("GET", f"calls/{call}?wait={wait}")
    assert (status, problem["code"]) == (422, "invalid")


def test_a_last_word_waits_for_the_sessions_of_its_run_and_a_failed_stop_replaces_it(
    runtime: Runtime,
) -> None:
    session = ToolSession.objects.create(run=runtime.run, name="app", node="another")
    status, problem = runtime.send("POST", "finish", {"text": "All written down."})
    assert (status, "being ended" in problem["detail"]) == (409, True)
    session.refresh_from_db()
    # Whoever carries out calls there was told, and the sweep tells again.
    assert session.ending_at is not None
    ToolSession.objects.update(state="failed", sentence="The stop command failed.")
    assert runtime.send("POST", "finish", {"text": "All written down."})[0] == 200
    runtime.run.refresh_from_db()
    assert (runtime.run.outcome, runtime.run.explanation) == ("failed", "The stop command failed.")
    assert not RoomEvent.objects.filter(kind="message.posted").exists()


def test_the_last_word_is_a_message_and_ends_the_run(runtime: Runtime) -> None:
    assert runtime.send("POST", "finish", {"text": "All written down."})[0] == 200
    event = RoomEvent.objects.get(kind="message.posted")
    assert event.data["text"] == "All written down."
    runtime.run.refresh_from_db()
    assert (runtime.run.state, runtime.run.outcome) == ("finished", "completed")
    assert runtime.send("POST", "finish", {"text": "Again."})[0] == 401


def test_a_run_is_opened_only_where_the_agent_has_a_seat(room: Room, member: User) -> None:
    make_agent(member, slug="other")
    client = Client()
    for who, agent, status in ((member, "other", 404), (make_member(), "scribe", 404)):
        client.force_login(who)
        answer = client.post(
            f"/api/v1/rooms/{room.pk}/runs", {"agent": agent}, content_type="application/json"
        )
        assert answer.status_code == status


def test_two_that_open_runs_together_do_not_pass_the_bound(
    room: Room, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "MAX_OPEN_RUNS", 2)
    barrier = threading.Barrier(6)
    codes: list[str] = []

    def open_one() -> None:
        barrier.wait()
        try:
            external.open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
            codes.append("opened")
        except Conflict as refusal:
            codes.append(refusal.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["conflict"] * 4 + ["opened"] * 2


def test_a_lost_token_is_replaced_and_opens_nothing_any_more(
    runtime: Runtime, member: User
) -> None:
    old = runtime.token
    client = Client()
    client.force_login(member)
    answer = client.post(f"/api/v1/runs/{runtime.run.pk}/token", {}, content_type=JSON)
    assert answer.status_code == 201, answer.content
    assert answer.json()["expires_at"] == runtime.opened["expires_at"]
    assert runtime.send("GET", "run")[0] == 401
    runtime.token = answer.json()["token"]
    assert runtime.send("GET", "run")[0] == 200
    row = AuditRow.objects.get(action="run.token_renewed")
    assert (row.actor, row.subject) == (member.key, runtime.run.key)
    assert runtime.token not in str(row.detail)
    assert old != runtime.token


def test_only_the_member_for_whom_a_run_works_gets_its_token(runtime: Runtime) -> None:
    guest = Client()
    guest.force_login(User.objects.get(username="tomas"))
    answer = guest.post(f"/api/v1/runs/{runtime.run.pk}/token", {}, content_type=JSON)
    assert answer.status_code == 403
    assert runtime.send("GET", "run")[0] == 200


def test_a_run_that_has_ended_or_is_our_own_has_no_token(
    runtime: Runtime, room: Room, member: User
) -> None:
    ours = make_run(room, runtime.run.agent, member)
    runtime.send("POST", "finish", {"text": ""})
    client = Client()
    client.force_login(member)
    for run, code in ((runtime.run, "run_over"), (ours, "conflict")):
        answer = client.post(f"/api/v1/runs/{run.pk}/token", {}, content_type=JSON)
        assert (answer.status_code, answer.json()["code"]) == (409, code)


def test_a_runtime_may_say_that_it_failed(runtime: Runtime) -> None:
    assert runtime.send("POST", "finish", {"text": "I gave up.", "outcome": "stopped"})[0] == 422
    assert runtime.send("POST", "finish", {"text": "I gave up.", "outcome": "failed"})[0] == 200
    runtime.run.refresh_from_db()
    assert (runtime.run.state, runtime.run.outcome) == ("finished", "failed")
    assert runtime.run.explanation == "Its runtime says that it failed."
