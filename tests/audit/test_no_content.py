"""Whatever people and models say, show or keep secret: no row of audit holds a word of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.agents.services import change_agent, create_agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.edits import edit_approval
from apps.boundary.external import call_tool, finish_external_run, open_external_run
from apps.boundary.services import decide_approval
from apps.domain.tooling import Reason, ToolFailure
from apps.grants.services.pinning import pin_arguments
from apps.proposals import services as proposals
from apps.proposals.models import PackageProposal
from apps.rooms.models import Room
from apps.turns.engine import run_turn
from apps.web.services import post_message
from tests.factories import packages as made
from tests.factories.effects import offer, outside_tool
from tests.factories.rooms import EVERYTHING, make_member, make_room
from tests.proposals.conftest import give_receipt

pytestmark = pytest.mark.django_db(transaction=True)

WORD = "quincunx"
"""Stands in everything that somebody says, and in no word of ours."""


@pytest.fixture
def mara() -> User:
    return make_member("mara")


@pytest.fixture
def ines() -> User:
    user = User.objects.create_user("ines", is_staff=True, is_superuser=True)
    return user


@pytest.fixture
def room(mara: User) -> Room:
    agent = create_agent(
        owner=mara,
        slug="scribe",
        name=f"Scribe {WORD}",
        description=f"About {WORD}",
        persona=f"Speak of {WORD}.",
        ceiling=EVERYTHING,
    )
    room = make_room(mara, agent)
    Room.objects.filter(pk=room.pk).update(name=f"Room of {WORD}")
    change_agent(agent_id=agent.pk, actor=mara, changes={"persona": f"Never of {WORD}."})
    return room


def told() -> str:
    """Everything that all rows of audit say."""
    return json.dumps(list(AuditRow.objects.values()), default=str)


def actions() -> set[str]:
    return set(AuditRow.objects.values_list("action", flat=True))


def nothing_is_told(*expected: str) -> None:
    assert set(expected) <= actions()
    assert WORD not in told()


def test_nothing_of_a_conversation(room: Room, mara: User, settings: Any) -> None:
    settings.KAIZEN_MODEL_URL = ""
    note = {"title": f"The {WORD}", "kind": "markdown", "body": f"# {WORD}"}
    lines = [f"/call create_artifact {json.dumps(note)}", f"/call no_such_{WORD} {{}}"]
    posted = post_message(room_id=room.pk, member=mara, text="\n".join(lines))
    assert posted.run is not None
    run_turn(run_id=posted.run.pk)
    assert Artifact.objects.get().title == f"The {WORD}"
    nothing_is_told("run.started", "chat.tool.write", "artifact.created", "run.finished")
    # A tool that a model made up has no name here: the name is the model's own word.
    refused = AuditRow.objects.get(action="call.settled")
    assert (refused.outcome, refused.detail["tool"]) == ("refused", "")


def test_nothing_of_a_question_its_answer_or_its_edit(
    room: Room, mara: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arguments: dict[str, Any], context: Any) -> ToolFailure:
        return ToolFailure(Reason.COMMAND_FAILED, f"The {WORD} is broken: {arguments}")

    offer(monkeypatch, outside_tool(fail))
    opened = open_external_run(room_id=room.pk, member=mara, agent_slug="scribe")

    def asked(number: int) -> ApprovalRequest:
        text = json.dumps({"to": f"{WORD} {number}"})
        call = call_tool(
            run=opened.run, name="send_letter", arguments_text=text, proposal_id=f"{number}"
        ).call
        return ApprovalRequest.objects.get(call=call)

    denied, approved, edited = (asked(number) for number in range(3))
    decide_approval(approval_id=denied.pk, member=mara, approve=False, comment=f"No {WORD}, please")
    decide_approval(
        approval_id=approved.pk,
        member=mara,
        approve=True,
        arguments_digest=approved.arguments_digest,
    )
    pipeline.execute_waiting(call_id=approved.call_id, executor="worker")
    edit_approval(
        approval_id=edited.pk,
        member=mara,
        arguments_digest=edited.arguments_digest,
        arguments={"to": f"another {WORD}"},
    )
    finish_external_run(run=opened.run, text=f"The {WORD} is done.")
    nothing_is_told("approval.denied", "approval.approved", "receipt.spent", "chat.tool.write")
    assert opened.token not in told()


def test_nothing_of_a_sign_in_or_a_token(client: Client) -> None:
    User.objects.create_user("tomas", password=f"the {WORD} of tomas")
    for password in (f"wrong {WORD}", f"the {WORD} of tomas"):
        answer = client.post(
            "/api/v1/auth/token",
            {"username": "tomas", "password": password},
            content_type="application/json",
        )
    nothing_is_told("user.sign_in_failed", "token.made")
    assert answer.json()["token"] not in told()


def test_nothing_of_a_proposal_or_its_review(mara: User, ines: User) -> None:
    proposal = proposals.create_proposal(
        author=mara,
        manifest=made.manifest(),
        files=made.tree(readme_py=f"# {WORD}\n".encode()),
        note=f"The {WORD} one.",
    )
    give_receipt(proposal, output=f"{WORD} OK")
    proposals.submit_proposal(proposal_id=proposal.pk, author=mara, note=f"Now with {WORD}")
    proposals.reject_proposal(proposal_id=proposal.pk, reviewer=ines, reason=f"Too much {WORD}")
    assert PackageProposal.objects.get().state == "rejected"
    nothing_is_told("proposal.created", "proposal.submitted", "proposal.rejected")


def test_nothing_of_a_value_that_an_administrator_set(ines: User) -> None:
    spec = outside_tool(lambda arguments, context: ToolFailure(Reason.COMMAND_FAILED, "")).spec
    pin_arguments(actor=ines, spec=spec, values={"to": f"{WORD}@example.com"})
    assert f"{WORD}@" not in told()


def test_every_row_names_who_did_it_and_what_caused_it(room: Room, mara: User) -> None:
    for row in AuditRow.objects.all():
        assert row.actor
        assert ":" in row.subject
