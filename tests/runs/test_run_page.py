"""What administrators see of a run: when, for how long, by which rule, and never what was said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.approvals.models import Pause
from apps.runs.models import Call, Run
from apps.runs.timeline import run_timeline
from tests.factories.questions import make_question
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db

SOON = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.fixture
def run() -> Run:
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    run = claimed_run(make_room(member, agent), agent, member)
    crossed(run, "create_artifact", {"title": "Plan", "kind": "markdown", "body": "secret words"})
    return run


@pytest.fixture
def ines(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ines", password="a long enough secret"))
    return client


def page(client: Client, kind: str, ident: object) -> str:
    answer = client.get(reverse(f"admin:runs_{kind}_change", args=[ident]))
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_each_call_says_how_it_was_decided(ines: Client, run: Run) -> None:
    call = Call.objects.get(run=run)
    seen = page(ines, "run", run.pk)
    for said in (call.rule, call.arguments_digest, "create_artifact", "write", "Waited for people"):
        assert said in seen
    assert "secret words" not in seen


def test_what_was_waited_and_what_ran_are_told_apart(run: Run) -> None:
    call = make_question(run).call
    began = call.created_at
    Call.objects.filter(pk=call.pk).update(
        state="settled",
        outcome="ok",
        dispatched_at=began + timedelta(seconds=40),
        settled_at=began + timedelta(seconds=43),
    )
    timeline = run_timeline(run)
    assert timeline.waited == timedelta(seconds=40)
    assert timeline.ran >= timedelta(seconds=3)
    waits = [row for row in timeline.rows if row[2].waited is not None]
    assert len(waits) == 1
    assert timeline.decisions[-1][4].text == "40 s"


def test_a_call_shows_its_row_of_audit(ines: Client, run: Run) -> None:
    seen = page(ines, "call", Call.objects.get(run=run).pk)
    assert "chat.tool.write" in seen
    assert "secret words" not in seen


def test_a_run_that_works_for_another_links_to_it_and_back(ines: Client, run: Run) -> None:
    call = Call.objects.get(run=run)
    child = Run.objects.create(
        room=run.room,
        agent=run.agent,
        member=run.member,
        parent=run,
        parent_call=call,
        depth=1,
        deadline_at=run.deadline_at,
        correlation_id=run.correlation_id,
    )
    assert reverse("admin:runs_run_change", args=[child.pk]) in page(ines, "run", run.pk)
    assert reverse("admin:runs_run_change", args=[run.pk]) in page(ines, "run", child.pk)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"state": "waiting", "needs_receipt": True}, "Asks a person"),
        ({"state": "waiting"}, "Waiting for a worker"),
        ({"state": "dispatched", "executor": "worker", "executor_expires_at": SOON}, "Running"),
        ({"state": "dispatched"}, "Waiting for another system"),
        ({"state": "dispatched", "executor": "run:1"}, "Waiting for another agent"),
    ],
)
def test_an_open_call_says_everywhere_whom_it_waits_for(
    ines: Client, run: Run, row: dict[str, Any], words: str
) -> None:
    open_row = {"outcome": "", "settled_at": None, "dispatched_at": None, **row}
    call = Call.objects.get(run=run)
    Call.objects.filter(pk=call.pk).update(**open_row)
    listed = ines.get(reverse("admin:runs_call_changelist")).content.decode()
    assert words in listed
    assert words in page(ines, "call", call.pk)
    whole = page(ines, "run", run.pk)
    assert words in whole
    # A run says for which of its calls it waits.
    assert (f"create_artifact: {words.lower()}" in whole) is (words != "Running")


def test_a_call_that_waits_leads_to_what_it_waits_for(ines: Client, run: Run) -> None:
    question = make_question(run)
    asks = page(ines, "call", question.call.pk)
    assert reverse("admin:approvals_approvalrequest_change", args=[question.pk]) in asks
    call = Call.objects.exclude(pk=question.call.pk).get(run=run)
    Call.objects.filter(pk=call.pk).update(state="dispatched", outcome="", settled_at=None)
    pause = Pause.objects.create(call=call, token_hash="h", expires_at=SOON, state="waiting")
    assert f"{pause.expires_at:%Y-%m-%d}" in page(ines, "call", call.pk)
