"""What is callable is judged at every call, whatever was offered when the run began."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import override_settings

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.boundary.errors import ProposalChanged
from apps.boundary.pipeline import cross, execute_waiting
from apps.boundary.services import decide_approval
from apps.domain.policy import ROOT, NodeState, Path
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    Guard,
    ToolOk,
    specify,
)
from apps.domain.tooling.features import Feature
from apps.grants.models import PolicyState
from apps.grants.services import (
    change_policy,
    choose_tools,
    keep_all_tools,
    pin_arguments,
    unpin_arguments,
)
from apps.rooms.models import Room
from apps.rooms.services import invite, remove_participant
from apps.runs.bodies import arguments_of, projection_of
from apps.runs.claims import fenced, lock_call
from apps.runs.models import JournalEntry, Run
from apps.runs.services import append_journal
from apps.tools.catalog import freeze
from apps.tools.contract import CallContext, Tool
from apps.tools.registry import BUILTIN_TOOLS
from apps.turns.context import read_conversation
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, crossed, make_room, proposed

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}
OFF, ON, UNSET = NodeState.DISABLED, NodeState.ALLOWED, NodeState.UNSET
CREATE = BUILTIN_TOOLS["create_artifact"].spec


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x")


def say(actor: User, changes: dict[Path, NodeState]) -> None:
    revision = PolicyState.objects.values_list("revision", flat=True).first() or 0
    change_policy(actor=actor, revision=revision, changes=changes)


def ended(settled: Any) -> tuple[str, str, str]:
    call = settled.call
    call.refresh_from_db()
    return call.outcome, call.reason, call.rule


def refrozen(run: Run) -> dict[str, Any]:
    """The tools that this run would be offered if it began now."""
    fresh = Run.objects.select_related("room", "agent", "member").get(pk=run.pk)
    fresh.selection = None
    freeze(fresh)
    tools: dict[str, Any] = fresh.catalog["tools"]
    return tools


# --- the tree


@pytest.mark.parametrize(
    "node", [ROOT, ("kaizen",), ("kaizen", "artifacts"), ("kaizen", "artifacts", CREATE.name)]
)
def test_what_is_switched_off_after_the_run_began_is_refused_at_its_next_call(
    run: Run, ines: User, node: Path
) -> None:
    assert ended(crossed(run, CREATE.name, NOTE))[0] == "ok"
    say(ines, {node: OFF})
    refused = crossed(run, CREATE.name, {**NOTE, "title": "Another"}, step=2)
    assert ended(refused) == ("refused", "permission_denied", "policy_tree_allows")
    assert "switches off" in (projection_of(refused.call) or {})["message"]
    assert Artifact.objects.count() == 1
    # Nor is it offered to a run that begins now; what the node does not cover still is.
    tools = refrozen(run)
    assert CREATE.name not in tools
    assert ("search_about" in tools) is (len(node) >= 2)
    say(ines, {node: UNSET})
    assert ended(crossed(run, CREATE.name, {**NOTE, "title": "A third"}, step=3))[0] == "ok"


def test_a_yes_does_not_outlive_the_policy(
    run: Run, ines: User, member: User, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    run.save(update_fields=freeze(run))
    waiting = crossed(run, "send_letter", {"to": "tomas"})
    decide_approval(
        approval_id=ApprovalRequest.objects.get().pk,
        member=member,
        approve=True,
        arguments_digest=waiting.call.arguments_digest,
    )
    say(ines, {("kaizen", "artifacts", "send_letter"): OFF})
    execute_waiting(call_id=waiting.call.pk, executor="test")
    assert ended(waiting) == ("refused", "permission_denied", "policy_tree_allows")
    assert letters.sent == []
    assert Receipt.objects.get().spent_at is None


def test_a_policy_that_cannot_be_read_is_a_refusal_that_is_written_down(
    run: Run, ines: User
) -> None:
    say(ines, {("mcp", "deploy"): ON})
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE grants_policynode RENAME TO away")
    refused = crossed(run, CREATE.name, NOTE)
    assert ended(refused) == ("refused", "permission_denied", "policy_tree_allows")
    assert "could not be read" in (projection_of(refused.call) or {})["message"]
    assert not Artifact.objects.exists()
    assert AuditRow.objects.filter(action="chat.tool.write", outcome="refused").exists()
    assert refrozen(run) == {}


def test_a_switched_off_part_of_the_deployment_offers_and_calls_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool(CREATE, BUILTIN_TOOLS[CREATE.name].handler, feature=Feature.DELEGATION)
    offer(monkeypatch, tool)
    assert ended(crossed(run, CREATE.name, NOTE))[0] == "ok"
    with override_settings(KAIZEN_FEATURES_OFF=frozenset({"delegation"})):
        refused = crossed(run, CREATE.name, {**NOTE, "title": "Another"}, step=2)
        assert ended(refused) == ("refused", "tool_disabled", "tool_is_enabled")
        assert CREATE.name not in refrozen(run)
    assert CREATE.name in refrozen(run)


# --- what the deployment sets itself


def test_a_pinned_argument_is_out_of_sight_and_in_the_call(run: Run, ines: User) -> None:
    before = refrozen(run)[CREATE.name]
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "markdown"})
    run.save(update_fields=freeze(run))
    shown = run.catalog["tools"][CREATE.name]
    assert "kind" not in str(shown["input_schema"])
    assert shown["digest"] != before["digest"]
    settled = crossed(run, CREATE.name, {"title": "A note", "body": "# Hello"})
    assert ended(settled)[0] == "ok"
    assert arguments_of(settled.call)["kind"] == "markdown"
    assert Artifact.objects.get().kind == "markdown"


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_a_proposal_that_names_a_pinned_argument_is_refused_whatever_it_says(
    run: Run, ines: User, kind: str
) -> None:
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "markdown"})
    run.save(update_fields=freeze(run))
    call = proposed(run, CREATE.name, {**NOTE, "kind": kind})
    assert (call.outcome, call.reason) == ("refused", "invalid_arguments")
    message = (projection_of(call) or {})["message"]
    assert '"kind"' in message
    assert "markdown" not in message
    assert not Artifact.objects.exists()


def test_a_run_that_was_offered_the_tool_before_it_was_pinned_finds_it_changed(
    run: Run, ines: User
) -> None:
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "markdown"})
    refused = crossed(run, CREATE.name, {"title": "A note", "body": "# Hello"})
    assert ended(refused) == ("refused", "outside_catalog", "descriptor_is_current")
    run.save(update_fields=freeze(run))
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "html"})
    refused = crossed(run, CREATE.name, {"title": "A note", "body": "# Hello"}, step=2)
    assert ended(refused) == ("refused", "outside_catalog", "descriptor_is_current")
    unpin_arguments(actor=ines, path=("kaizen", "artifacts", CREATE.name))
    refused = crossed(run, CREATE.name, NOTE, step=3)
    assert ended(refused) == ("refused", "outside_catalog", "descriptor_is_current")
    assert not Artifact.objects.exists()


def test_a_repeated_proposal_is_the_same_also_after_what_is_pinned_has_changed(
    run: Run, ines: User
) -> None:
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "markdown"})
    given = {"title": "A note", "body": "# Hello"}
    first = proposed(run, CREATE.name, given)
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "html"})
    assert proposed(run, CREATE.name, given).pk == first.pk
    with pytest.raises(ProposalChanged):
        proposed(run, CREATE.name, {**given, "title": "Another"})
    assert proposed(run, CREATE.name, given).arguments_digest == first.arguments_digest


# --- what the member keeps, and what a run was given


def test_what_a_member_takes_from_an_agent_is_gone_at_the_next_call(
    run: Run, member: User, guest: User, agent: Agent
) -> None:
    choose_tools(room_id=run.room_id, agent_slug=agent.slug, member=member, tools=["read_artifact"])
    refused = crossed(run, CREATE.name, NOTE)
    assert ended(refused) == ("refused", "permission_denied", "member_choice_holds")
    assert list(refrozen(run)) == ["read_artifact"]
    keep_all_tools(room_id=run.room_id, agent_slug=agent.slug, member=member)
    assert ended(crossed(run, CREATE.name, NOTE, step=2))[0] == "ok"
    # What somebody else keeps concerns their runs, in this room and with this agent only.
    choose_tools(room_id=run.room_id, agent_slug=agent.slug, member=guest, tools=[])
    assert ended(crossed(run, CREATE.name, {**NOTE, "title": "B"}, step=3))[0] == "ok"


def test_a_choice_is_frozen_into_a_run_and_never_widens_it(
    run: Run, member: User, agent: Agent
) -> None:
    choose_tools(
        room_id=run.room_id, agent_slug=agent.slug, member=member, tools=["search_about", "made_up"]
    )
    run.save(update_fields=freeze(run))
    assert run.selection == ["made_up", "search_about"]
    assert list(run.catalog["tools"]) == ["search_about"]
    keep_all_tools(room_id=run.room_id, agent_slug=agent.slug, member=member)
    refused = crossed(run, CREATE.name, NOTE)
    assert ended(refused)[0] == "refused"
    # Even where an older catalog still names the tool.
    run.catalog = {"tools": refrozen(run)}
    run.save(update_fields=["catalog"])
    refused = crossed(run, CREATE.name, NOTE, step=2)
    assert ended(refused) == ("refused", "permission_denied", "run_selection_holds")


@pytest.mark.parametrize(
    ("narrower", "rule"),
    [
        ({"ceiling": ["docs.read"]}, "run_ceiling_covers"),
        ({"ceiling": []}, "run_ceiling_covers"),
        ({"selection": ["search_about"]}, "run_selection_holds"),
        ({"selection": []}, "run_selection_holds"),
        ({"selection": "everything"}, "run_selection_holds"),
    ],
)
def test_what_a_run_was_given_less_than_its_agent_is_never_more(
    run: Run, narrower: dict[str, Any], rule: str
) -> None:
    Run.objects.filter(pk=run.pk).update(**narrower)
    refused = crossed(run, CREATE.name, NOTE)
    assert ended(refused) == ("refused", "permission_denied", rule)


def test_a_run_that_was_given_more_than_its_agents_ceiling_has_no_more(
    run: Run, agent: Agent
) -> None:
    Run.objects.filter(pk=run.pk).update(ceiling=[one.value for one in Capability])
    Agent.objects.filter(pk=agent.pk).update(ceiling=["docs.read"])
    refused = crossed(run, CREATE.name, NOTE)
    assert ended(refused) == ("refused", "permission_denied", "agent_ceiling_covers")


# --- who is in the room


def private_tool(seen: list[str]) -> Tool:
    """A read of what is one member's own."""

    def read(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        seen.append(context.member.username)
        return ToolOk({"diary": "Dear diary"})

    spec = specify(
        name="read_diary",
        title="Read the diary",
        description="Read what only its member may see.",
        input_schema={"type": "object"},
        effect=Effect.READ,
        capability=Capability.DOCS_READ,
        guard=Guard.MEMBER_STORE,
        effect_domain=EffectDomain.OURS,
        collaboration=CollaborationClass.ACTOR_PRIVATE_READ,
    )
    return Tool(spec, read)


def test_a_private_tool_is_for_a_room_with_nobody_else_in_it(
    member: User, guest: User, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    offer(monkeypatch, private_tool(seen))
    alone = make_room(member, agent)
    run = claimed_run(alone, agent, member)
    assert "read_diary" in run.catalog["tools"]
    assert ended(crossed(run, "read_diary", {}))[0] == "ok"
    invite(room_id=alone.pk, inviter=member, username=guest.username)
    refused = crossed(run, "read_diary", {}, step=2)
    assert ended(refused) == ("refused", "not_admitted_here", "room_admits")
    assert "read_diary" not in refrozen(run)
    remove_participant(room_id=alone.pk, actor=member, username=guest.username)
    assert ended(crossed(run, "read_diary", {}, step=3))[0] == "ok"
    assert seen == ["mara", "mara"]


def test_the_one_whose_run_it_is_must_be_the_one_in_the_room(
    member: User, guest: User, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, private_tool([]))
    room = make_room(member, agent, guest)
    run = claimed_run(room, agent, guest)
    assert "read_diary" not in run.catalog["tools"]
    remove_participant(room_id=room.pk, actor=guest, username=guest.username)
    # Only Mara is left, and it is not her run.
    assert ended(crossed(run, "read_diary", {}))[0] == "refused"


@pytest.mark.django_db(transaction=True)
def test_nobody_comes_in_between_the_look_at_the_roster_and_the_read(
    monkeypatch: pytest.MonkeyPatch, member: User, agent: Agent
) -> None:
    came_in: list[str] = []

    def try_to_come_in(room_id: Any) -> None:
        try:
            with transaction.atomic():
                Room.objects.select_for_update(no_key=True, nowait=True).get(pk=room_id)
                came_in.append("yes")
        except OperationalError:
            came_in.append("not yet")
        finally:
            connection.close()

    def read(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        other = threading.Thread(target=try_to_come_in, args=(context.room_id,))
        other.start()
        other.join()
        return ToolOk({})

    offer(monkeypatch, Tool(private_tool([]).spec, read))
    room = make_room(member, agent)
    run = claimed_run(room, agent, member)
    call = proposed(run, "read_diary", {})
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        settled = cross(run=locked, call=lock_call(call.pk))
    assert ended(settled)[0] == "ok"
    assert came_in == ["not yet"]
    try_to_come_in(room.pk)
    assert came_in[-1] == "yes"


@pytest.mark.parametrize("collaboration", [CollaborationClass.UNKNOWN])
def test_a_tool_of_no_class_is_neither_offered_nor_called(
    run: Run, monkeypatch: pytest.MonkeyPatch, collaboration: CollaborationClass
) -> None:
    spec = specify(
        name="guess",
        title="Guess",
        description="Guess.",
        input_schema={"type": "object"},
        effect=Effect.READ,
        capability=Capability.DOCS_READ,
        guard=Guard.MEMBER_STORE,
        effect_domain=EffectDomain.OURS,
        collaboration=collaboration,
    )
    offer(monkeypatch, Tool(spec, lambda arguments, context: ToolOk({})))
    assert "guess" not in refrozen(run)
    assert ended(crossed(run, "guess", {}))[0] == "refused"


def test_a_model_is_never_told_what_is_pinned_also_not_of_its_own_calls(
    run: Run, ines: User
) -> None:
    pin_arguments(actor=ines, spec=CREATE, values={"kind": "markdown"})
    run.save(update_fields=freeze(run))
    call = crossed(run, CREATE.name, {"title": "A note", "body": "# Hello"}).call
    assert call.pinned == ["kind"]
    append_journal(
        run=run,
        kind=JournalEntry.Kind.ASSISTANT,
        body={"text": "", "calls": [{"id": "one", "name": CREATE.name}]},
    )
    told = [
        message["tool_calls"][0]["function"]["arguments"]
        for message in read_conversation(run).messages()
        if "tool_calls" in message
    ]
    assert [json.loads(text) for text in told] == [{"title": "A note", "body": "# Hello"}]
    # What was done is kept whole, for the member and for the record.
    assert arguments_of(call)["kind"] == "markdown"
