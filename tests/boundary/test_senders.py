"""A token that is bound to a key opens nothing without that key, and never becomes a plain one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.boundary import senders
from apps.boundary.api.plain import PlainProposal, answer_plainly
from apps.boundary.errors import BadProposal
from apps.boundary.external import call_from, open_external_run, renew_run_token
from apps.core import once
from apps.domain.proofs import Proof
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from kaizen.door import _plain
from tests.boundary.test_statements import STATEMENTS
from tests.factories.asgi import through_server
from tests.factories.keys import KeyHolder
from tests.factories.rooms import make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)

HOME = "http://testserver"
CALLS = "/api/v1/callback/calls"
READ = {"name": "list_available_agents", "arguments": {}}
JSON = "application/json"


@pytest.fixture
def member(transactional_db: None) -> User:
    return make_member("mara")


@pytest.fixture
def room(member: User) -> Room:
    return make_room(member, make_agent(member, slug="scribe"))


def opening(room: Room, member: User, proof: str | None, **headers: str) -> Any:
    client = Client()
    client.force_login(member)
    if proof is not None:
        headers["DPoP"] = proof
    path = f"/api/v1/rooms/{room.pk}/runs"
    return client.post(path, {"agent": "scribe"}, content_type=JSON, headers=headers)


def renewing(run: str, member: User, proof: str | None) -> Any:
    client = Client()
    client.force_login(member)
    headers = {} if proof is None else {"DPoP": proof}
    return client.post(f"/api/v1/runs/{run}/token", {}, content_type=JSON, headers=headers)


class Runtime:
    """A runtime that holds a key and a token that is bound to it."""

    def __init__(self, room: Room, member: User, *, key: KeyHolder | None = None) -> None:
        self.key = key or KeyHolder()
        path = f"{HOME}/api/v1/rooms/{room.pk}/runs"
        answer = opening(room, member, self.key.proof("POST", path))
        assert answer.status_code == 201, answer.content
        self.opened = answer.json()
        self.token = self.opened["token"]
        self.run = self.opened["run"]

    def proof(self, method: str = "POST", path: str = CALLS, **claims: Any) -> str:
        return self.key.proof(method, HOME + path, self.token, **claims)

    def send(
        self,
        proof: str | None = None,
        *,
        method: str = "POST",
        path: str = CALLS,
        body: Any = None,
        scheme: str = "DPoP",
        by_view: bool = False,
    ) -> Any:
        headers = {"Authorization": f"{scheme} {self.token}"}
        if proof is not None:
            headers["DPoP"] = proof
        if body is None and method == "POST":
            body = {**READ, "proposal_id": uuid.uuid4().hex}
        query = "?by=view" if by_view else ""
        raw = "" if body is None else json.dumps(body)
        return through_server(method, path + query, raw, headers)


@pytest.fixture
def runtime(room: Room, member: User) -> Runtime:
    return Runtime(room, member)


@pytest.fixture(params=[False, True], ids=["door", "view"])
def by_view(request: pytest.FixtureRequest) -> bool:
    # Plain proposals have a door of their own, and it opens for nobody whom the view refuses.
    return bool(request.param)


def refused(answer: Any, code: str, error: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert f'error="{error}"' in answer.headers["www-authenticate"]
    assert 'DPoP algs="ES256 EdDSA"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
def test_the_holder_of_the_key_works_as_ever(room: Room, member: User, algorithm: str) -> None:
    runtime = Runtime(room, member, key=KeyHolder(algorithm))
    assert runtime.opened["token_type"] == "DPoP"
    for by_view in (False, True):
        answer = runtime.send(runtime.proof(), by_view=by_view)
        assert (answer.status_code, answer.json()["outcome"]) == (200, "ok")
    path = f"{CALLS}/{answer.json()['call']}"
    assert runtime.send(runtime.proof("GET", path), method="GET", path=path).status_code == 200
    path = "/api/v1/callback/run"
    assert runtime.send(runtime.proof("GET", path), method="GET", path=path).status_code == 200
    path = "/api/v1/callback/finish"
    done = runtime.send(runtime.proof("POST", path), path=path, body={"text": "Done."})
    assert done.status_code == 200


def test_the_run_keeps_the_thumbprint_and_nothing_else_of_the_key(runtime: Runtime) -> None:
    rows = json.dumps(list(Run.objects.values()), default=str)
    assert runtime.key.thumbprint in rows
    assert runtime.key.jwk["x"] not in rows
    row = AuditRow.objects.get(action="run.started")
    assert row.detail["key"] == runtime.key.thumbprint


def test_a_stolen_token_alone_opens_nothing(runtime: Runtime, by_view: bool) -> None:
    refused(runtime.send(by_view=by_view), "invalid_dpop_proof", "invalid_dpop_proof")
    refused(runtime.send(scheme="Run", by_view=by_view), "bad_run_token", "invalid_token")
    stolen = runtime.send(runtime.proof(), scheme="Run", by_view=by_view)
    refused(stolen, "bad_run_token", "invalid_token")
    assert runtime.send(scheme="Bearer", by_view=by_view).status_code == 401
    assert not Call.objects.exists()


def test_another_key_opens_nothing(runtime: Runtime, by_view: bool) -> None:
    thief = KeyHolder()
    proof = thief.proof("POST", HOME + CALLS, runtime.token)
    refused(runtime.send(proof, by_view=by_view), "bad_run_token", "invalid_token")
    dressed = thief.proof("POST", HOME + CALLS, runtime.token, header={"jwk": runtime.key.jwk})
    refused(runtime.send(dressed, by_view=by_view), "invalid_dpop_proof", "invalid_dpop_proof")


def test_a_proof_counts_once_whichever_way_it_comes(runtime: Runtime, by_view: bool) -> None:
    proof = runtime.proof()
    body = {**READ, "proposal_id": "once"}
    assert runtime.send(proof, body=body).status_code == 200
    again = runtime.send(proof, body=body, by_view=by_view)
    refused(again, "invalid_dpop_proof", "invalid_dpop_proof")
    assert "used" in again.json()["detail"]
    # The id is what counts: another signature, or another second, makes no other proof of it.
    assert runtime.send(runtime.proof(jti="one")).status_code == 200
    another = runtime.proof(jti="one", iat=int(time.time()) - 5)
    refused(runtime.send(another), "invalid_dpop_proof", "invalid_dpop_proof")


def test_a_refused_request_does_not_spend_anothers_proof(runtime: Runtime) -> None:
    proof = runtime.proof(jti="mine")
    thief = KeyHolder()
    stolen = thief.proof("POST", HOME + CALLS, runtime.token, jti="mine")
    refused(runtime.send(stolen), "bad_run_token", "invalid_token")
    assert runtime.send(proof).status_code == 200


def test_a_proof_for_something_else_opens_nothing(
    runtime: Runtime, room: Room, member: User, by_view: bool
) -> None:
    other = Runtime(room, member, key=runtime.key)
    for proof in (
        runtime.proof("GET"),
        runtime.proof(path="/api/v1/callback/finish"),
        runtime.proof(htu=f"https://testserver{CALLS}"),
        runtime.proof(htu=f"http://elsewhere.example{CALLS}"),
        other.proof(),
        runtime.proof(ath=None),
        runtime.proof(iat=1_600_000_000),
        runtime.proof(iat=4_000_000_000),
        runtime.proof(header={"alg": "none"}),
        runtime.proof(header={"alg": "HS256"}),
        f"{runtime.proof()},{runtime.proof()}",
        "x" * 5_000,
    ):
        refused(runtime.send(proof, by_view=by_view), "invalid_dpop_proof", "invalid_dpop_proof")
    assert not Call.objects.exists()


def test_two_proofs_in_one_request_are_none(runtime: Runtime) -> None:
    pair = [(b"dpop", b"a"), (b"dpop", b"b"), (b"authorization", b"DPoP x"), (b"host", b"x")]
    asked = {
        "path": CALLS, "method": "POST", "query_string": b"", "scheme": "http", "headers": pair,
    }  # fmt: skip
    assert _plain(asked) is None


def test_a_plain_token_stays_plain_and_is_told_so(room: Room, member: User, by_view: bool) -> None:
    answer = opening(room, member, None)
    assert answer.json()["token_type"] == "Run"
    key = KeyHolder()
    plain = Runtime.__new__(Runtime)
    plain.key, plain.token = key, answer.json()["token"]
    assert plain.send(scheme="Run", by_view=by_view).status_code == 200
    refused(plain.send(plain.proof(), by_view=by_view), "bad_run_token", "invalid_token")


def test_no_new_token_takes_the_key_away(runtime: Runtime, member: User) -> None:
    path = f"{HOME}/api/v1/runs/{runtime.run}/token"
    for proof in (None, KeyHolder().proof("POST", path), runtime.key.proof("POST", HOME + CALLS)):
        answer = renewing(runtime.run, member, proof)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_dpop_proof")
    assert runtime.send(runtime.proof()).status_code == 200
    answer = renewing(runtime.run, member, runtime.key.proof("POST", path))
    assert (answer.status_code, answer.json()["token_type"]) == (201, "DPoP")
    old = runtime.send(runtime.proof())
    refused(old, "bad_run_token", "invalid_token")
    runtime.token = answer.json()["token"]
    assert runtime.send(runtime.proof()).status_code == 200
    assert runtime.send(scheme="Run").status_code == 401


def test_a_plain_run_may_be_bound_by_a_new_token(room: Room, member: User) -> None:
    run = opening(room, member, None).json()["run"]
    key = KeyHolder()
    answer = renewing(run, member, key.proof("POST", f"{HOME}/api/v1/runs/{run}/token"))
    assert (answer.status_code, answer.json()["token_type"]) == (201, "DPoP")
    assert renewing(run, member, None).status_code == 400
    assert AuditRow.objects.get(action="run.token_renewed").detail == {"key": key.thumbprint}


@pytest.mark.parametrize("bad", ["path", "replay", "garbage"])
def test_a_run_is_not_opened_under_a_proof_that_proves_nothing(
    room: Room, member: User, bad: str
) -> None:
    path = f"{HOME}/api/v1/rooms/{room.pk}/runs"
    proof = KeyHolder().proof("POST", path + "x" if bad == "path" else path)
    if bad == "replay":
        assert opening(room, member, proof).status_code == 201
    answer = opening(room, member, "garbage" if bad == "garbage" else proof)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_dpop_proof")
    assert answer.json()["field"] == "DPoP"
    assert Run.objects.count() == (1 if bad == "replay" else 0)


def test_an_opening_that_is_sent_again_whole_has_its_first_answer(room: Room, member: User) -> None:
    proof = KeyHolder().proof("POST", f"{HOME}/api/v1/rooms/{room.pk}/runs")
    first = opening(room, member, proof, **{"Idempotency-Key": "one"}).json()
    again = opening(room, member, proof, **{"Idempotency-Key": "one"}).json()
    assert again == {**first, "token": None}


def test_a_deployment_may_take_only_bound_tokens(
    room: Room, member: User, settings: Any, by_view: bool
) -> None:
    before = opening(room, member, None).json()
    settings.KAIZEN_BOUND_RUN_TOKENS = True
    answer = opening(room, member, None)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_dpop_proof")
    with pytest.raises(senders.BadKey):
        open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
    with pytest.raises(senders.BadKey):
        renew_run_token(run_id=before["run"], member=member)
    plain = Runtime.__new__(Runtime)
    plain.token = before["token"]
    refused(plain.send(scheme="Run", by_view=by_view), "bad_run_token", "invalid_token")
    runtime = Runtime(room, member)
    assert runtime.send(runtime.proof(), by_view=by_view).status_code == 200
    missing = runtime.send(scheme="", by_view=by_view)
    assert not missing.headers["www-authenticate"].startswith("Run")


def test_where_nobody_can_remember_a_proof_none_is_taken(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, settings: Any, by_view: bool
) -> None:
    closed = "redis://127.0.0.1:1/0"
    real = once.store
    monkeypatch.setattr(once, "store", lambda url: real(closed))
    assert runtime.send(runtime.proof(), by_view=by_view).status_code == 503
    assert not Call.objects.exists()


async def test_a_wait_is_proven_before_it_waits_and_its_proof_counts_once(
    room: Room, member: User
) -> None:
    runtime = await sync_to_async(Runtime)(room, member)
    call = await sync_to_async(_a_waiting_call)(runtime)
    path = f"{CALLS}/{call.pk}"

    async def wait(proof: str, seconds: float) -> Any:
        headers = {"authorization": f"DPoP {runtime.token}", "dpop": proof}
        return await AsyncClient().get(f"{path}?wait={seconds}", headers=headers)

    proof = runtime.proof("GET", path)
    answer = await wait(proof, 0.2)
    assert answer.status_code == 202, answer.content
    # Whoever cannot prove it does not even learn when the call settles.
    for refused_proof in (proof, KeyHolder().proof("GET", HOME + path, runtime.token)):
        answer = await asyncio.wait_for(wait(refused_proof, 25), 10)
        assert answer.status_code == 401


def _a_waiting_call(runtime: Runtime) -> Call:
    answer = runtime.send(runtime.proof())
    call = Call.objects.get(pk=answer.json()["call"])
    Call.objects.filter(pk=call.pk).update(state="waiting", outcome="", settled_at=None)
    return call


def test_of_two_processes_one_counts_a_proof(settings: Any) -> None:
    purpose, names = f"test-{uuid.uuid4().hex}", 300
    program = (
        "from apps.core.once import first_time\n"
        "input()\n"
        f"won = [n for n in range({names}) if first_time('{purpose}', str(n), seconds=30)]\n"
        "print(*won)"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "kaizen.settings"},
        )
        for _ in range(2)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    won = [n for racer in racers for n in racer.communicate(timeout=60)[0].split()]
    assert sorted(won, key=int) == [str(n) for n in range(names)]


def test_a_bound_call_costs_no_statement_more(
    runtime: Runtime, django_assert_num_queries: Any
) -> None:
    def call(ident: str) -> int:
        return answer_plainly(
            f"DPoP {runtime.token}",
            PlainProposal("list_available_agents", {}, ident),
            proof=runtime.proof(),
            address=HOME + CALLS,
        ).status

    assert call("warm") == 200
    with django_assert_num_queries(STATEMENTS):
        assert call("counted") == 200


def test_the_service_itself_refuses_a_proposal_before_it_spends_a_proof(runtime: Runtime) -> None:
    with pytest.raises(BadProposal):
        call_from(
            sender=senders.Sender(runtime.token, Proof(runtime.key.thumbprint, "kept")),
            name="list_available_agents", arguments_text="{}", proposal_id="",
        )  # fmt: skip
    assert runtime.send(runtime.proof(jti="kept")).status_code == 200
