"""Answering questions from outside, and saying when to be asked."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission as Held
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, ApprovalRule, Remembered
from apps.domain.tooling import Effect
from apps.rooms.models import Room
from apps.runs.claims import fenced
from apps.runs.models import Call, Run
from apps.runs.services import finish_run
from tests.factories.clients import client_of, problem
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.questions import make_question
from tests.factories.rooms import claimed_run, crossed

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(
        monkeypatch,
        outside_tool(letters.handler),
        outside_tool(letters.handler, name="send_money", effect=Effect.SENSITIVE),
    )
    return letters


@pytest.fixture
def asked(letters: Letters, room: Room, agent: Agent, mara: User) -> ApprovalRequest:
    run = claimed_run(room, agent, mara)
    crossed(run, "send_letter", {"to": "anna"})
    return ApprovalRequest.objects.get()


def test_a_card_says_who_must_agree_and_what_the_reader_may_do(
    as_mara: APIClient, asked: ApprovalRequest
) -> None:
    body = as_mara.get(f"/api/v1/approvals/{asked.pk}").json()
    assert body["may"] == {"answer": True, "edit": True, "remember": True}
    assert [(p["part"], p["said"]) for p in body["people"]] == [("first", None)]
    assert (body["asks"], body["second"], body["pinned"]) == ("ask_every_time", "", [])
    assert (body["replaces"], body["replaced_by"]) == (None, None)


def test_an_edit_answers_with_the_question_that_took_the_place(
    as_mara: APIClient, asked: ApprovalRequest
) -> None:
    url = f"/api/v1/approvals/{asked.pk}/edit"
    seen = {"arguments_digest": asked.arguments_digest}
    refused = as_mara.post(url, {**seen, "arguments": {"to": 7}})
    body = problem(refused, 422, "edit_refused")
    assert body["errors"][0]["field"] == "arguments/to"
    problem(as_mara.post(url, {**seen, "arguments": ["to"]}), 422, "invalid")
    made = as_mara.post(url, {**seen, "arguments": {"to": "bea"}}).json()
    assert made["approval"]["state"] == "approved"
    old = as_mara.get(f"/api/v1/approvals/{asked.pk}").json()
    assert (old["state"], old["replaced_by"]) == ("replaced", made["approval"]["id"])
    new = as_mara.get(f"/api/v1/approvals/{made['approval']['id']}").json()
    assert (new["replaces"], new["arguments"]) == (str(asked.pk), {"to": "bea"})


def test_a_yes_for_all_is_listed_and_can_be_taken_back(
    as_mara: APIClient, as_tomas: APIClient, asked: ApprovalRequest
) -> None:
    yes = {"arguments_digest": asked.arguments_digest, "remember": True}
    assert as_mara.post(f"/api/v1/approvals/{asked.pk}/approve", yes).status_code == 200
    listed = as_mara.get("/api/v1/approvals/remembered").json()["results"]
    assert [row["tool"] for row in listed] == ["send_letter"]
    url = f"/api/v1/approvals/remembered/{listed[0]['id']}"
    assert as_tomas.get("/api/v1/approvals/remembered").json()["results"] == []
    problem(as_tomas.delete(url), 404, "not_found")
    assert as_mara.delete(url).status_code == 204
    assert not Remembered.objects.exists()


def test_what_asks_every_time_cannot_be_allowed_for_all(as_mara: APIClient, run: Run) -> None:
    question = make_question(run)
    yes = {"arguments_digest": question.arguments_digest, "remember": True}
    answer = as_mara.post(f"/api/v1/approvals/{question.pk}/approve", yes)
    assert problem(answer, 422, "invalid")["field"] == "remember"


def test_a_member_chooses_when_to_be_asked(
    as_mara: APIClient, as_tomas: APIClient, room: Room, agent: Agent
) -> None:
    url = "/api/v1/approvals/modes"
    assert as_mara.put(url, {"mode": "always"}).json() == {
        "mode": "always",
        "room": None,
        "agent": None,
    }
    here = {"room": str(room.pk), "agent": agent.slug}
    assert as_mara.put(url, {"mode": "first_use", **here}).json()["agent"]["slug"] == agent.slug
    assert len(as_mara.get(url).json()["results"]) == 2
    assert as_tomas.get(url).json()["results"] == []
    problem(as_mara.put(url, {"mode": "sometimes"}), 422, "invalid")
    assert problem(as_mara.put(url, {"mode": "always", "room": str(room.pk)}), 422, "invalid")
    problem(as_mara.put(url, {**here, "mode": "always", "agent": "nobody"}), 404, "not_found")
    foreign = {**here, "room": str(uuid.uuid4()), "mode": "always"}
    problem(as_mara.put(url, foreign), 404, "not_found")
    query = f"?room={room.pk}&agent={agent.slug}"
    assert as_mara.delete(url + query).status_code == 204
    assert [row["mode"] for row in as_mara.get(url).json()["results"]] == ["always"]
    assert as_mara.delete(url).status_code == 204
    assert as_mara.get(url).json()["results"] == []


def test_the_inbox_is_filtered_by_state_and_agent(
    mara: User, tomas: User, as_mara: APIClient, letters: Letters, room: Room, agent: Agent
) -> None:
    ApprovalRule.objects.create(second="administrator")
    tomas.user_permissions.add(Held.objects.get(codename="second_approval"))
    run = claimed_run(room, agent, mara)
    crossed(run, "send_money", {"to": "anna"})
    asked = ApprovalRequest.objects.get()
    as_second = client_of(User.objects.get(pk=tomas.pk))
    yes = {"arguments_digest": asked.arguments_digest}

    def listed(client: APIClient, query: str) -> list[Any]:
        return [row["id"] for row in client.get(f"/api/v1/approvals?{query}").json()["results"]]

    assert listed(as_second, "state=pending") == listed(as_mara, "state=pending") == [str(asked.pk)]
    assert as_second.get(f"/api/v1/approvals/{asked.pk}").json()["may"] == {
        "answer": True,
        "edit": False,
        "remember": False,
    }
    assert as_second.post(f"/api/v1/approvals/{asked.pk}/approve", yes).json()["state"] == "pending"
    problem(as_second.post(f"/api/v1/approvals/{asked.pk}/approve", yes), 409, "already_answered")
    assert listed(as_second, "state=pending") == []
    assert listed(as_second, "state=others") == [str(asked.pk)]
    assert listed(as_mara, f"agent={agent.slug}") == [str(asked.pk)]
    assert listed(as_mara, "agent=other") == []
    done = as_mara.post(f"/api/v1/approvals/{asked.pk}/approve", yes).json()
    assert done["state"] == "approved"


def test_deciding_after_the_run_has_ended_is_a_conflict_that_says_so(
    as_mara: APIClient, asked: ApprovalRequest
) -> None:
    run = asked.call.run
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        finish_run(run=locked, outcome=Run.Outcome.STOPPED)
    yes = {"arguments_digest": asked.arguments_digest}
    for verb, body in (("approve", yes), ("deny", {}), ("edit", {**yes, "arguments": {}})):
        problem(as_mara.post(f"/api/v1/approvals/{asked.pk}/{verb}", body), 409, "run_over")
    assert Call.objects.get(pk=asked.call_id).state == "waiting"
