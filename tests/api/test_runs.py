"""Runs and their calls are followed, stopped and decided over the API."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from tests.factories.clients import client_of, problem
from tests.factories.questions import make_question
from tests.factories.rooms import crossed


def test_a_run_is_seen_by_everyone_in_its_room(
    as_tomas: APIClient, mara: User, agent: Agent, room: Room, run: Run
) -> None:
    body = as_tomas.get(f"/api/v1/runs/{run.pk}").json()
    assert body["id"] == str(run.pk)
    assert body["agent"] == {"slug": agent.slug, "name": agent.name}
    assert body["member"]["username"] == mara.username
    assert (body["state"], body["outcome"], body["stop_requested"]) == ("running", "", False)
    assert "token_hash" not in body
    assert "catalog" not in body
    for query, count in (
        ("", 1),
        (f"?room={room.pk}", 1),
        ("?state=running", 1),
        ("?state=queued", 0),
        ("?room=00000000-0000-0000-0000-000000000000", 0),
    ):
        assert len(as_tomas.get(f"/api/v1/runs{query}").json()["results"]) == count


def test_arguments_and_result_are_for_the_runs_member(
    as_mara: APIClient, as_tomas: APIClient, call: Call
) -> None:
    mine = as_mara.get(f"/api/v1/calls/{call.pk}").json()
    assert mine["arguments"]["body"] == "# Plan\n\nsecret word"
    assert mine["projection"]["outcome"] == "ok"
    theirs = as_tomas.get(f"/api/v1/calls/{call.pk}")
    hidden = dict.fromkeys(("arguments", "arguments_digest", "projection"))
    assert theirs.json() == {**mine, **hidden}
    assert b"secret word" not in theirs.content
    listed = as_tomas.get(f"/api/v1/runs/{call.run_id}/calls")
    assert [row["id"] for row in listed.json()["results"]] == [str(call.pk)]
    assert b"secret word" not in listed.content


def test_calls_cost_the_same_for_many_as_for_one(
    mara: User, run: Run, call: Call, django_assert_max_num_queries: Any
) -> None:
    for step in range(2, 7):
        crossed(run, "list_available_agents", {}, step=step)
    client = client_of(mara)
    with django_assert_max_num_queries(3):
        body = client.get(f"/api/v1/runs/{run.pk}/calls").json()
    assert len(body["results"]) == 6


def test_only_its_member_or_the_rooms_owner_stops_a_run(
    as_mara: APIClient, as_tomas: APIClient, run: Run
) -> None:
    url = f"/api/v1/runs/{run.pk}/stop"
    problem(as_tomas.post(url), 403, "forbidden")
    problem(as_mara.post(url, {"now": True}), 422, "invalid")
    assert as_mara.post(url).json()["stop_requested"] is True


def test_the_decider_sees_the_exact_arguments(
    as_mara: APIClient, as_tomas: APIClient, run: Run
) -> None:
    question = make_question(run, {"celsius": 21, "note": "secret word"})
    listed = as_mara.get("/api/v1/approvals?state=pending")
    assert [row["id"] for row in listed.json()["results"]] == [str(question.pk)]
    assert b"secret word" not in listed.content
    body = as_mara.get(f"/api/v1/approvals/{question.pk}").json()
    assert body["arguments"] == {"celsius": 21, "note": "secret word"}
    assert body["arguments_digest"] == question.arguments_digest
    assert set(body["about"]) == {"where", "as_whom", "effect", "undo", "undoable", "comes_from"}
    assert as_tomas.get("/api/v1/approvals").json()["results"] == []
    problem(as_tomas.get(f"/api/v1/approvals/{question.pk}"), 404, "not_found")


def test_a_yes_names_what_was_shown_and_counts_once(as_mara: APIClient, run: Run) -> None:
    question = make_question(run)
    url = f"/api/v1/approvals/{question.pk}"
    problem(as_mara.post(f"{url}/approve", {}), 422, "invalid")
    problem(as_mara.post(f"{url}/approve", {"arguments_digest": "sha256:1"}), 422, "invalid")
    other = "sha256:" + "0" * 64
    problem(as_mara.post(f"{url}/approve", {"arguments_digest": other}), 409, "arguments_changed")
    assert not Receipt.objects.exists()
    yes = {"arguments_digest": question.arguments_digest}
    assert as_mara.post(f"{url}/approve", yes).json()["state"] == "approved"
    problem(as_mara.post(f"{url}/approve", yes), 409, "already_decided")
    problem(as_mara.post(f"{url}/deny", {}), 409, "already_decided")
    assert Receipt.objects.count() == 1
    decided = as_mara.get("/api/v1/approvals?state=decided").json()["results"]
    assert [row["id"] for row in decided] == [str(question.pk)]


def test_a_no_settles_the_call(as_mara: APIClient, run: Run) -> None:
    question = make_question(run)
    url = f"/api/v1/approvals/{question.pk}/deny"
    problem(as_mara.post(url, {"reason": "x" * 501}), 422, "invalid")
    assert as_mara.post(url, {"reason": "Not today."}).json()["state"] == "denied"
    question.call.refresh_from_db()
    assert (question.call.state, question.call.outcome) == ("settled", "denied")
    assert not Receipt.objects.exists()


def test_an_expired_question_takes_no_answer(as_mara: APIClient, run: Run) -> None:
    question = make_question(run)
    ApprovalRequest.objects.update(expires_at="2020-01-01T00:00:00Z")
    yes = {"arguments_digest": question.arguments_digest}
    problem(as_mara.post(f"/api/v1/approvals/{question.pk}/approve", yes), 409, "already_decided")


def test_approvals_cost_the_same_for_many_as_for_one(
    mara: User, run: Run, django_assert_max_num_queries: Any
) -> None:
    for _ in range(6):
        make_question(run)
    client = client_of(mara)
    # The member's own duties, by person and by group, and the page.
    with django_assert_max_num_queries(4):
        assert len(client.get("/api/v1/approvals").json()["results"]) == 6


def test_another_runtime_gets_its_token_once(as_mara: APIClient, agent: Agent, room: Room) -> None:
    made = as_mara.post(f"/api/v1/rooms/{room.pk}/runs", {"agent": agent.slug})
    assert made.status_code == 201
    body = made.json()
    assert set(body) == {"run", "token", "token_type", "expires_at", "catalog", "catalog_digest"}
    assert body["token_type"] == "Run"
    runtime = client_of()
    runtime.credentials(HTTP_AUTHORIZATION=f"Run {body['token']}")
    seen = runtime.get("/api/v1/callback/run").json()
    assert seen["catalog_digest"] == body["catalog_digest"]
    # A run's token opens nothing of its member's, and a member's token nothing of a run's.
    problem(runtime.get("/api/v1/rooms"), 401, "not_authenticated")
    problem(as_mara.get("/api/v1/callback/run"), 401, "bad_run_token")
    problem(as_mara.post(f"/api/v1/rooms/{room.pk}/runs", {"agent": "other"}), 404, "not_found")


@pytest.mark.parametrize("header", ["", "Run", "Run ", "Run unknown", "Bearer unknown"])
def test_a_bad_run_token_is_refused(db: None, header: str) -> None:
    runtime = client_of()
    runtime.credentials(HTTP_AUTHORIZATION=header)
    problem(runtime.get("/api/v1/callback/run"), 401, "bad_run_token")
