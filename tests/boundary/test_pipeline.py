"""What comes of a proposed call: inline calls of our own tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import change_agent
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.audit.models import AuditRow
from apps.boundary.crossing import Settled
from apps.boundary.errors import ProposalChanged
from apps.domain.tooling import CallState, Outcome, Reason, ToolOk
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import close_room, remove_participant
from apps.runs.bodies import projection_of
from apps.runs.claims import claim_run
from apps.runs.errors import AlreadySettled, StaleFence
from apps.runs.models import Call, Run
from apps.runs.services import settle_call
from tests.factories.effects import offer, own_tool
from tests.factories.rooms import claimed_run, crossed, make_agent, make_room, proposed

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}


def outcome(settled: Any) -> tuple[str, str]:
    assert isinstance(settled, Settled)
    return settled.call.outcome, settled.call.reason


def test_an_admitted_write_saves_settles_records_and_tells_the_room_at_once(run: Run) -> None:
    settled = crossed(run, "create_artifact", NOTE)

    assert outcome(settled) == ("ok", "")
    version = ArtifactVersion.objects.get()
    assert version.call_id == settled.call.pk
    assert projection_of(settled.call)["value"]["artifact_id"] == str(version.artifact_id)
    assert AuditRow.objects.filter(action="chat.tool.write", outcome="ok").count() == 1
    kinds = list(RoomEvent.objects.filter(room=run.room).values_list("kind", flat=True))
    assert kinds[-3:] == ["call.proposed", "artifact.saved", "call.settled"]


def test_the_trail_names_the_revision_of_the_agent_as_it_was_at_each_call(
    run: Run, agent: Agent, member: User
) -> None:
    crossed(run, "list_available_agents", {})
    change_agent(agent_id=agent.pk, actor=member, changes={"persona": "Be brief."})
    crossed(run, "list_available_agents", {}, step=2)
    rows = AuditRow.objects.filter(action="call.settled").order_by("pk")
    assert [row.detail["revision"] for row in rows] == [1, 2]


def test_positions_in_a_room_have_no_gap(run: Run) -> None:
    for step in range(1, 4):
        crossed(run, "list_available_agents", {}, step=step)
    positions = list(RoomEvent.objects.filter(room=run.room).values_list("position", flat=True))
    assert positions == list(range(1, len(positions) + 1))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("{", "JSON"),
        ('{"title": "a", "title": "b"}', "twice"),
        ('["a"]', "one JSON object"),
        ({"title": "x", "kind": "markdown"}, "body"),
        ({**NOTE, "kind": "sculpture"}, "kind"),
        ({**NOTE, "owner": 1}, "owner"),
        ({**NOTE, "body": "x" * 1_100_000}, "bytes"),
    ],
)
def test_invalid_arguments_are_refused_with_their_reason_and_change_nothing(
    run: Run, arguments: Any, says: str
) -> None:
    call = proposed(run, "create_artifact", arguments)
    assert (call.state, call.outcome, call.reason) == ("settled", "refused", "invalid_arguments")
    message = projection_of(call)["message"]
    assert says in message
    assert len(message) < 4096
    assert not Artifact.objects.exists()


def test_an_argument_value_is_never_quoted_in_its_refusal(run: Run) -> None:
    call = proposed(run, "create_artifact", {**NOTE, "kind": "s3cret-kind"})
    assert "s3cret" not in projection_of(call)["message"]


def test_a_tool_that_is_not_in_the_catalog_is_refused(run: Run) -> None:
    assert outcome(crossed(run, "rm_rf", {})) == ("refused", Reason.OUTSIDE_CATALOG.value)


def test_a_ceiling_that_was_lowered_after_the_run_began_holds_at_once(
    run: Run, agent: Agent
) -> None:
    Agent.objects.filter(pk=agent.pk).update(ceiling=["artifacts.read"])
    assert outcome(crossed(run, "create_artifact", NOTE)) == ("refused", "permission_denied")
    assert not Artifact.objects.exists()


def test_a_member_who_left_the_room_can_do_nothing_through_a_run(
    member: User, guest: User, agent: Agent, room: Room
) -> None:
    run = claimed_run(room, agent, guest)
    remove_participant(room_id=room.pk, actor=member, username=guest.username)
    assert outcome(crossed(run, "create_artifact", NOTE)) == ("refused", "permission_denied")


def test_an_account_that_was_closed_can_do_nothing_through_a_run(run: Run, member: User) -> None:
    User.objects.filter(pk=member.pk).update(is_active=False)
    assert outcome(crossed(run, "create_artifact", NOTE)) == ("refused", "permission_denied")


def test_nothing_new_happens_in_a_closed_room(run: Run, member: User) -> None:
    close_room(room_id=run.room_id, actor=member)
    assert outcome(crossed(run, "create_artifact", NOTE)) == ("refused", "room_closed")


def test_a_disabled_agent_can_do_nothing(run: Run, agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(enabled=False)
    assert outcome(crossed(run, "create_artifact", NOTE)) == ("refused", "permission_denied")


def test_a_worker_that_was_overtaken_writes_nothing(run: Run) -> None:
    call = proposed(run, "create_artifact", NOTE)
    Run.objects.filter(pk=run.pk).update(claim_expires_at="2020-01-01T00:00Z")
    assert claim_run(run_id=run.pk, worker="other") == run.fence + 1
    with pytest.raises(StaleFence):
        crossed(run, "create_artifact", NOTE, step=2)
    assert Call.objects.get(pk=call.pk).state == CallState.PROPOSED.value
    assert not Artifact.objects.exists()


def test_a_call_settles_exactly_once(run: Run) -> None:
    settled = crossed(run, "create_artifact", NOTE)
    with pytest.raises(AlreadySettled):
        settle_call(run=run, call=settled.call, outcome=Outcome.ERROR)
    assert Call.objects.get(pk=settled.call.pk).outcome == "ok"


def test_an_identical_write_of_the_same_turn_makes_nothing_new(run: Run) -> None:
    first = crossed(run, "create_artifact", NOTE)
    again = crossed(run, "create_artifact", NOTE, step=2)
    assert outcome(again) == ("suppressed", "")
    told = projection_of(again.call)
    assert told["outcome"] == "ok"
    assert told["value"] == projection_of(first.call)["value"]
    assert "nothing new" in told["note"]
    assert Artifact.objects.count() == 1


def test_identical_calls_of_one_step_all_run(run: Run) -> None:
    crossed(run, "create_artifact", NOTE)
    assert outcome(crossed(run, "create_artifact", NOTE, place=1)) == ("ok", "")
    assert Artifact.objects.count() == 2


def test_a_failed_write_is_no_earlier_success_and_may_be_made_again(run: Run) -> None:
    office = {**NOTE, "title": "Report.docx"}
    assert outcome(crossed(run, "create_artifact", office)) == ("error", "invalid_arguments")
    assert outcome(crossed(run, "create_artifact", NOTE, step=2)) == ("ok", "")
    assert outcome(crossed(run, "create_artifact", office, step=3))[0] == "error"


def test_a_proposal_id_stands_for_one_call_only(run: Run) -> None:
    proposed(run, "create_artifact", NOTE)
    assert proposed(run, "create_artifact", NOTE).pk == Call.objects.get().pk
    with pytest.raises(ProposalChanged):
        proposed(run, "create_artifact", {**NOTE, "body": "other"})


def test_a_foreign_artifact_and_a_missing_one_are_refused_alike(
    run: Run, guest: User, agent: Agent
) -> None:
    other = make_agent(guest)
    room = make_room(guest, other)
    crossed(claimed_run(room, other, guest), "create_artifact", NOTE)
    foreign = str(Artifact.objects.get(owner=guest).pk)
    missing = "00000000-0000-4000-8000-000000000000"
    told = [
        projection_of(crossed(run, "read_artifact", {"artifact_id": ident}, step=step).call)
        for step, ident in enumerate((foreign, missing), 1)
    ]
    assert told[0] == told[1]
    assert told[0]["reason"] == "not_found"


def test_an_update_reaches_no_artifact_of_another_room(
    run: Run, agent: Agent, member: User
) -> None:
    """Otherwise a closed room, or one that the member has left, would be written into."""
    elsewhere = make_room(member, agent)
    made = projection_of(
        crossed(claimed_run(elsewhere, agent, member), "create_artifact", NOTE).call
    )["value"]
    change = {"artifact_id": made["artifact_id"], "expected_version": 1, "body": "second"}
    events = RoomEvent.objects.filter(room=elsewhere).count()
    assert outcome(crossed(run, "update_artifact", change)) == ("error", "not_found")
    assert Artifact.objects.get(pk=made["artifact_id"]).head == 1
    assert RoomEvent.objects.filter(room=elsewhere).count() == events


def test_a_line_number_may_be_written_as_any_whole_number(run: Run) -> None:
    made = projection_of(crossed(run, "create_artifact", NOTE).call)["value"]
    for step, line in enumerate(("2.0", "1e30", "9" * 40), 2):
        text = f'{{"artifact_id": "{made["artifact_id"]}", "first_line": {line}}}'
        assert outcome(crossed(run, "read_artifact", text, step=step))[0] == "ok"


def test_an_update_on_a_stale_version_saves_nothing(run: Run) -> None:
    made = projection_of(crossed(run, "create_artifact", NOTE).call)["value"]
    change = {"artifact_id": made["artifact_id"], "expected_version": 1, "body": "second"}
    assert outcome(crossed(run, "update_artifact", change, step=2))[0] == "ok"
    stale = crossed(run, "update_artifact", {**change, "body": "third"}, step=3)
    assert outcome(stale) == ("error", "stale_version")
    artifact = Artifact.objects.get()
    assert (artifact.head, artifact.versions.count()) == (2, 2)


def test_a_write_of_ours_that_raises_is_rolled_back_and_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.artifacts import services

    def explode(**_: Any) -> None:
        raise DatabaseError("disk full at /secret/path")

    monkeypatch.setattr(services, "record", explode)
    settled = crossed(run, "create_artifact", NOTE)
    assert outcome(settled) == ("raised", "execution_error")
    message = projection_of(settled.call)["message"]
    assert "Nothing was saved" in message
    assert "secret" not in message
    assert not Artifact.objects.exists()


def test_a_call_by_an_alias_is_one_of_the_tools_own_name(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, own_tool(lambda arguments, context: ToolOk({}), aliases=("mine",)))
    run = claimed_run(room, agent, member)
    call = crossed(run, "mine", {"n": 1}).call
    assert (call.tool, call.outcome) == ("own", "ok")
    assert "mine" not in run.catalog["tools"]


def test_an_alias_leads_past_no_rule_that_holds_for_its_tool(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, own_tool(lambda arguments, context: ToolOk({}), aliases=("mine",)))
    run = claimed_run(room, agent, member)
    Agent.objects.filter(pk=agent.pk).update(ceiling=["docs.read"])
    assert outcome(crossed(run, "mine", {"n": 1})) == ("refused", "permission_denied")
    assert outcome(crossed(run, "m1ne", {}, step=2)) == ("refused", "outside_catalog")
