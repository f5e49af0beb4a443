"""Another runtime proposes calls, waits for them holding nothing, and ends its run."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import AsyncClient
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.boundary.external import open_external_run
from apps.boundary.services import decide_approval
from apps.rooms.models import Room
from apps.runs.models import Run
from tests.factories.clients import client_of, problem
from tests.factories.questions import make_question
from tests.factories.rooms import make_agent, make_member, make_room

URL = "/api/v1/callback"


@pytest.fixture
def token(mara: User, agent: Agent, room: Room) -> str:
    return open_external_run(room_id=room.pk, member=mara, agent_slug=agent.slug).token


@pytest.fixture
def runtime(token: str) -> APIClient:
    client = client_of()
    client.credentials(HTTP_AUTHORIZATION=f"Run {token}")
    return client


def test_an_inline_call_settles_at_once_and_once(runtime: APIClient) -> None:
    body = {"name": "list_available_agents", "arguments": {}, "proposal_id": "p1"}
    first = runtime.post(f"{URL}/calls", body)
    assert (first.status_code, first.json()["outcome"]) == (200, "ok")
    assert runtime.post(f"{URL}/calls", body).json() == first.json()
    other = {**body, "name": "search_about", "arguments": {"query": "x"}}
    problem(runtime.post(f"{URL}/calls", other), 409, "proposal_changed")
    read = runtime.get(f"{URL}/calls/{first.json()['call']}")
    assert (read.status_code, read.json()) == (200, first.json())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x", "arguments": {}},
        {"name": "x", "arguments": {}, "proposal_id": ""},
        {"name": 1, "arguments": {}, "proposal_id": "p"},
        {"name": "x", "arguments": {}, "proposal_id": "p", "member": 1},
    ],
)
def test_a_malformed_proposal_is_no_call(runtime: APIClient, body: dict[str, Any]) -> None:
    problem(runtime.post(f"{URL}/calls", body), 422, "invalid")


@pytest.mark.parametrize("wait", ["-1", "26", "x", "1e9"])
def test_a_wait_is_bounded(runtime: APIClient, wait: str) -> None:
    problem(runtime.get(f"{URL}/calls/{uuid.uuid4()}?wait={wait}"), 422, "invalid")


def test_the_calls_of_other_runs_are_missing(
    runtime: APIClient, mara: User, agent: Agent, room: Room
) -> None:
    other = open_external_run(room_id=room.pk, member=mara, agent_slug=agent.slug)
    question = make_question(other.run)
    for ident in (question.call_id, uuid.uuid4()):
        problem(runtime.get(f"{URL}/calls/{ident}"), 404, "not_found")


def test_a_token_dies_with_its_run(runtime: APIClient) -> None:
    assert runtime.post(f"{URL}/finish", {"text": "Done."}).status_code == 200
    problem(runtime.get(f"{URL}/run"), 401, "bad_run_token")


@pytest.mark.django_db(transaction=True)
async def test_a_wait_ends_with_the_answer() -> None:
    run, question, token = await sync_to_async(_waiting_call)()
    url = f"{URL}/calls/{question.call_id}"

    async def ask(wait: float) -> Any:
        headers = {"authorization": f"Run {token}"}
        return await AsyncClient().get(f"{url}?wait={wait}", headers=headers)

    early = await ask(0.2)
    assert (early.status_code, early.json()["state"]) == (202, "waiting")
    waiting = asyncio.create_task(ask(20))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await sync_to_async(_deny)(question.pk, run.member)
    answer = await asyncio.wait_for(waiting, 10)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "denied")
    # The thread behind the views keeps its connection, and with it the database of the tests.
    await sync_to_async(_give_back)()


def _waiting_call() -> tuple[Run, Any, str]:
    try:
        mara = make_member()
        agent = make_agent(mara)
        room = make_room(mara, agent)
        opened = open_external_run(room_id=room.pk, member=mara, agent_slug=agent.slug)
        return opened.run, make_question(opened.run), opened.token
    finally:
        connection.close()


def _deny(approval_id: Any, member: User) -> None:
    try:
        decide_approval(approval_id=approval_id, member=member, approve=False)
    finally:
        connection.close()


def _give_back() -> None:
    # The name stands for another connection in every thread.
    connection.close()
