"""What a turn may do after what it did: demands, bounds, the record, and what is shown."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact, Draft
from apps.audit.models import AuditRow
from apps.domain.bounds import MAX_SAME_FAILURES, MAX_SEARCHES
from apps.domain.staging import STAGED_WRITING
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    Guard,
    Reason,
    ToolFailure,
    ToolOk,
    Visibility,
    specify,
)
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import invite
from apps.rooms.streams import StreamWriter
from apps.runs.bodies import projection_of
from apps.runs.models import Call, JournalEntry, Run
from apps.tools.contract import Tool
from apps.tools.registry import BUILTIN_TOOLS
from apps.turns.answer import Answer
from apps.turns.engine import run_turn
from apps.turns.provider import ArgumentsDelta, CallStarted
from apps.turns.storing import MAX_HELD
from tests.factories.effects import offer
from tests.factories.rooms import claimed_run, make_member, make_run
from tests.turns.fake_model import FakeModel

pytestmark = pytest.mark.django_db(transaction=True)

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}


def stand_in(name: str, handler: Any, *, effect: Effect = Effect.READ, **words: Any) -> Tool:
    """A tool of our own kind that only a test has."""
    read = effect is Effect.READ
    spec = specify(
        name=name,
        title=f"The {name} tool",
        description="A stand-in.",
        input_schema={"type": "object"},
        effect=effect,
        capability=Capability.DOCS_READ if read else Capability.ARTIFACTS_WRITE,
        guard=Guard.MEMBER_STORE,
        effect_domain=EffectDomain.OURS,
        collaboration=(
            CollaborationClass.ACTOR_BOUND_READ if read else CollaborationClass.ACTOR_BOUND_WRITE
        ),
        **words,
    )
    return Tool(spec, handler)


def succeeds(arguments: Any, context: Any) -> ToolOk:
    return ToolOk({"found": []})


def fails(reason: Reason = Reason.CONFLICT, **words: Any) -> Any:
    return lambda arguments, context: ToolFailure(reason, "It did not work.", **words)


def shown(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", [])]


def last_words() -> str:
    event = RoomEvent.objects.filter(kind="message.posted").last()
    assert event is not None
    return str(event.data["text"])


def ended(run: Run) -> tuple[str, str]:
    run.refresh_from_db()
    return run.outcome, run.explanation


# --- what a member demands


def test_a_demanded_tool_is_shown_alone_until_it_was_called(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("search_about", {"query": "receipts"}))
    model.says("A receipt is spent once.")
    run = make_run(room, agent, member, "You must call search_about. What is a receipt?")
    run_turn(run_id=run.pk)
    assert shown(model.asked[0]) == ["search_about"]
    assert "tool_choice" not in model.asked[0]
    assert len(shown(model.asked[1])) > 3
    assert ended(run)[0] == "completed"


def test_an_answer_without_the_demanded_call_is_held_and_asked_for_again(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.says("I know that by heart.")
    model.calls(("create_artifact", NOTE))
    model.calls(("search_about", {"query": "receipts"}))
    model.says("It is spent once.")
    run = make_run(room, agent, member, "Use search_about exactly once.")
    run_turn(run_id=run.pk)
    assert not Artifact.objects.exists()
    assert [call.tool for call in Call.objects.all()] == ["search_about"]
    said = RoomEvent.objects.filter(kind="message.posted")
    assert [event.data["text"] for event in said] == ["It is spent once."]
    assert "demands that you call search_about" in model.asked[1]["messages"][-1]["content"]
    assert JournalEntry.objects.filter(kind="note", body__event="held").count() == 2


def test_text_and_substitutes_beside_the_demanded_call_are_held(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(
        ("create_artifact", NOTE),
        ("search_about", {"query": "receipts"}),
        ("search_about", {"query": "again"}),
    )
    model.says("Found.")
    run = make_run(room, agent, member, "Use search_about exactly once.")
    run_turn(run_id=run.pk)
    assert [call.tool for call in Call.objects.all()] == ["search_about"]
    assert ended(run)[0] == "completed"


def test_a_demand_that_is_never_met_ends_the_turn_with_words(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for _ in range(MAX_HELD + 1):
        model.says("No.")
    run = make_run(room, agent, member, "You must call search_about.")
    run_turn(run_id=run.pk)
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "search_about" in why
    assert not RoomEvent.objects.filter(kind="message.posted").exists()


def test_an_attempt_that_failed_was_one_and_gives_the_catalog_back(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("search_about", {"no": "query"}))
    model.says("It could not be searched.")
    run = make_run(room, agent, member, "You must call search_about.")
    run_turn(run_id=run.pk)
    assert Call.objects.get().outcome == "refused"
    assert len(shown(model.asked[1])) > 3


@pytest.mark.parametrize(
    "text", ["Do not use search_about exactly once.", "You must call no_such_tool.", "Look it up."]
)
def test_what_is_no_demand_narrows_nothing(
    room: Room, agent: Agent, member: User, model: FakeModel, text: str
) -> None:
    model.says("Fine.")
    run_turn(run_id=make_run(room, agent, member, text).pk)
    assert len(shown(model.asked[0])) > 3


def test_a_named_tool_is_shown_first_and_a_deferred_one_at_all(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = stand_in("deep_search", succeeds, visibility=Visibility.DEFERRED)
    offer(monkeypatch, hidden)
    model.calls(("list_available_agents", {}))
    model.says("Fine.")
    run_turn(run_id=make_run(room, agent, member, "Try deep_search and read_artifact").pk)
    assert shown(model.asked[0])[:2] == ["deep_search", "read_artifact"]
    assert "deep_search" not in shown(model.asked[1])


def test_a_tool_puts_itself_first_by_its_own_words(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather = stand_in("forecast", succeeds, intent_hints=("the weather",))
    offer(monkeypatch, weather)
    model.says("Sunny.")
    run_turn(run_id=make_run(room, agent, member, "How is the weather?").pk)
    assert shown(model.asked[0])[0] == "forecast"


def test_a_preference_grants_nothing(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    Agent.objects.filter(pk=agent.pk).update(ceiling=["docs.read"])
    model.calls(("create_artifact", NOTE))
    model.says("I could not.")
    run_turn(run_id=make_run(room, agent, member, "You must call create_artifact.").pk)
    assert shown(model.asked[0]) == ["search_about"]
    assert Call.objects.get().outcome == "refused"
    assert not Artifact.objects.exists()


def test_what_the_server_routed_goes_before_the_members_demand(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.says("Routed.")
    run = make_run(room, agent, member, "You must call search_about.")
    Run.objects.filter(pk=run.pk).update(policy={"routed": "read_artifact"})
    run_turn(run_id=run.pk)
    assert shown(model.asked[0])[0] == "read_artifact"
    assert len(shown(model.asked[0])) > 3


# --- protocols of several tools


def staged(**words: Any) -> list[Tool]:
    return [
        stand_in(name, succeeds, effect=Effect.WRITE, visibility=Visibility.DEFERRED, **words)
        for name in STAGED_WRITING
    ]


def test_a_protocol_is_shown_whole_or_not_at_all(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, *staged())
    model.says("Fine.")
    run_turn(run_id=make_run(room, agent, member, "Use begin_artifact").pk)
    assert shown(model.asked[0])[:4] == list(STAGED_WRITING)
    offer(monkeypatch, *staged()[:2])
    model.says("Fine.")
    run_turn(run_id=make_run(room, agent, member, "Use begin_artifact").pk)


def test_a_stale_call_for_a_part_that_was_not_shown_is_denied_and_ends_the_turn(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, *staged())
    model.calls(("append_artifact", {}))
    run = make_run(room, agent, member, "Go on")
    run_turn(run_id=run.pk)
    call = Call.objects.get()
    assert (call.outcome, call.reason) == ("denied", "protocol_failure")
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "append_artifact" in why
    assert len(model.asked) == 1
    assert AuditRow.objects.filter(action="chat.tool.write", outcome="denied").count() == 1


def test_a_draft_that_was_interrupted_is_named_and_brings_its_tool_to_the_front(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("begin_artifact", {"title": "The game", "kind": "html"}))
    model.says("I will go on later.")
    run_turn(run_id=make_run(room, agent, member).pk)
    draft = Draft.objects.get()
    model.calls(
        (
            "update_artifact",
            {"artifact_id": str(draft.pk), "expected_version": 0, "body": "<p>whole</p>"},
        )
    )
    model.says("Finished.")
    run = make_run(room, agent, member, "please finish that")
    run_turn(run_id=run.pk)
    told = model.asked[2]
    assert f"{draft.pk} version 0" in told["messages"][0]["content"]
    assert "unfinished: complete it with update_artifact" in told["messages"][0]["content"]
    assert shown(told)[0] == "update_artifact"
    assert Artifact.objects.get().pk == draft.pk
    assert ended(run)[0] == "completed"


def test_a_draft_of_another_member_is_in_nobody_elses_roster(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    guest = make_member("tomas")
    invite(room_id=room.pk, inviter=member, username=guest.username)
    model.calls(("begin_artifact", {"title": "A secret", "kind": "html"}))
    model.says("I will go on later.")
    run_turn(run_id=make_run(room, agent, member).pk)
    model.says("Hello.")
    run_turn(run_id=make_run(room, agent, guest).pk)
    assert "A secret" not in json.dumps(model.asked[2])


def test_a_draft_is_called_finished_by_nobody_who_did_not_finish_it(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("begin_artifact", {"title": "The game", "kind": "html"}))
    model.says("")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert ended(run)[0] == "failed"
    assert Draft.objects.get().state == "open"


# --- bounds


def test_searches_for_tools_without_a_call_end_the_turn(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, stand_in("find_tools", succeeds, surface="discovery"))
    for number in range(MAX_SEARCHES):
        model.calls(("find_tools", {"n": number}))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "searched for tools 4 times" in why


def test_another_call_that_succeeds_gives_the_searches_back(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, stand_in("find_tools", succeeds, surface="discovery"))
    for number in range(MAX_SEARCHES - 1):
        model.calls(("find_tools", {"n": number}))
    model.calls(("list_available_agents", {}))
    model.calls(("find_tools", {"n": 99}))
    model.says("Found it.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert ended(run)[0] == "completed"


def test_the_same_failure_over_and_over_ends_the_turn(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, stand_in("flaky", fails()))
    for _ in range(MAX_SAME_FAILURES):
        model.calls(("flaky", {}))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "exactly the same arguments" in why


def test_a_refused_repeat_is_a_result_and_the_turn_answers(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for _ in range(5):
        model.calls(("create_artifact", NOTE))
    model.says("The note is there.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert Artifact.objects.count() == 1
    assert ended(run)[0] == "completed"
    assert last_words() == "The note is there."


def test_a_real_block_by_policy_ends_the_turn_closed(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrowed_meanwhile(arguments: Any, context: Any) -> ToolOk:
        Agent.objects.filter(pk=agent.pk).update(ceiling=["docs.read"])
        return ToolOk({})

    offer(monkeypatch, stand_in("look", narrowed_meanwhile))
    model.calls(("look", {}), ("create_artifact", NOTE))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "not allowed here" in why
    assert not Artifact.objects.exists()
    assert len(model.asked) == 1


def test_a_failure_that_nothing_may_stand_in_for_is_explained_in_one_step(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = fails(Reason.DEPENDENCY_UNAVAILABLE, non_substitutable=True)
    offer(monkeypatch, stand_in("open_page", lost))
    model.calls(("open_page", {}))
    model.says("The page could not be opened.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert ended(run)[0] == "completed"
    assert last_words() == "The page could not be opened."


def test_a_substitute_for_it_is_blocked_and_ends_the_turn(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = fails(Reason.DEPENDENCY_UNAVAILABLE, non_substitutable=True)
    offer(monkeypatch, stand_in("open_page", lost))
    model.calls(("open_page", {}))
    model.calls(("search_about", {"query": "the page"}))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "no other call may stand in for" in why
    assert list(Call.objects.order_by("step").values_list("outcome", "reason")) == [
        ("error", "dependency_unavailable"),
        ("refused", "substitute_blocked"),
    ]


def test_a_substitute_is_not_shown_either_while_it_is_written(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = fails(Reason.DEPENDENCY_UNAVAILABLE, non_substitutable=True)
    offer(monkeypatch, stand_in("open_page", lost))
    opened: list[dict[str, Any]] = []
    real = StreamWriter.open

    def watched(self: StreamWriter, meta: dict[str, Any]) -> None:
        opened.append(meta)
        real(self, meta)

    monkeypatch.setattr(StreamWriter, "open", watched)
    model.calls(("open_page", {}))
    model.calls(("create_artifact", NOTE))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert Call.objects.get(tool="create_artifact").reason == "substitute_blocked"
    assert {"tool": "create_artifact"} not in opened
    assert not Artifact.objects.exists()


def test_activity_that_delivers_nothing_is_a_failed_end(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("list_available_agents", {}))
    model.says("")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    outcome, why = ended(run)
    assert outcome == "failed"
    assert "made nothing that stays" in why


def test_silence_after_an_artifact_was_made_is_no_failure(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", NOTE))
    model.says("")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert ended(run) == ("completed", "")


# --- the last word against the record


def test_a_claim_over_a_failed_write_is_overwritten_before_anyone_keeps_it(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", {"title": "x"}))
    model.says("I created the artifact for you. Anything else?")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert "I created" not in last_words()
    assert "was refused" in last_words()
    event = RoomEvent.objects.filter(kind="message.posted").last()
    assert event is not None
    assert event.data["corrected"] is True
    entry = JournalEntry.objects.filter(run=run, kind="assistant").last()
    assert entry is not None
    assert "I created" in entry.body["text"]


def test_a_claim_of_a_write_that_was_never_tried_is_overwritten(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.says("I saved the file to your library.")
    run_turn(run_id=make_run(room, agent, member).pk)
    assert "nothing was made, changed or sent" in last_words()


def test_a_later_turn_may_speak_of_what_an_earlier_one_made(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", NOTE))
    model.says("I created the artifact.")
    run_turn(run_id=make_run(room, agent, member).pk)
    assert last_words() == "I created the artifact."
    model.says("Yes, I created the artifact.")
    run_turn(run_id=make_run(room, agent, member, "Did you?").pk)
    assert last_words() == "Yes, I created the artifact."


# --- what a model never sees


def test_no_tool_sleeps_waits_polls_asks_for_consent_or_controls_the_run() -> None:
    banned = {"sleep", "wait", "poll", "consent", "approve", "checkpoint", "process", "goal"}
    for name, tool in BUILTIN_TOOLS.items():
        assert not banned & set(name.split("_")), name
        assert not banned & set(tool.spec.input_schema.get("properties", {})), name


def test_a_prompt_profile_changes_what_is_said_of_tools_and_nothing_else(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any
) -> None:
    seen = {}
    for profile in ("full", "brief"):
        settings.KAIZEN_PROMPT_PROFILE = profile
        model.calls(("create_artifact", {**NOTE, "title": profile}))
        model.says("Made.")
        run = make_run(room, agent, member)
        run_turn(run_id=run.pk)
        run.refresh_from_db()
        seen[profile] = (model.asked[-2]["tools"], run.catalog_digest)
    full, brief = seen["full"], seen["brief"]
    assert full[1] == brief[1]
    assert [t["function"]["parameters"] for t in full[0]] == [
        t["function"]["parameters"] for t in brief[0]
    ]
    assert [t["function"]["name"] for t in full[0]] == [t["function"]["name"] for t in brief[0]]
    assert len(json.dumps(brief[0])) < len(json.dumps(full[0]))
    assert Artifact.objects.count() == 2


def test_the_rooms_artifacts_are_told_by_id_and_title(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", NOTE))
    model.says("Made.")
    run_turn(run_id=make_run(room, agent, member).pk)
    model.says("I see it.")
    run_turn(run_id=make_run(room, agent, member, "Do you see it?").pk)
    system = model.asked[-1]["messages"][0]["content"]
    assert str(Artifact.objects.get().pk) in system
    assert '"A note"' in system


def test_a_long_body_that_is_refused_keeps_its_reason(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", {**NOTE, "kind": "no such kind"}))
    model.says("It was not possible.")
    run_turn(run_id=make_run(room, agent, member).pk)
    told = projection_of(Call.objects.get()) or {}
    assert told["reason"] == "invalid_arguments"


# --- what the room sees of a repeat


def test_a_write_that_was_already_made_is_not_shown_again_while_it_is_written(
    room: Room, agent: Agent, member: User
) -> None:
    run = claimed_run(room, agent, member)
    answer = Answer(
        run=run, step=2, tools=[BUILTIN_TOOLS["create_artifact"]], made={"create_artifact": [NOTE]}
    )
    same, other = json.dumps(NOTE), json.dumps({**NOTE, "body": "# Hello, Anna"})
    for index, text in enumerate((same, other)):
        answer.hear(CallStarted(index, f"c{index}", "create_artifact"))
        for at in range(0, len(text), 5):
            answer.hear(ArgumentsDelta(index, text[at : at + 5]))
            if index == 0:
                assert answer.proposals[0].preview is None
    assert answer.proposals[1].preview is not None
    answer.drop()


def test_a_call_that_takes_longer_than_the_models_silence_may_ends_nothing(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(arguments: Any, context: Any) -> ToolOk:
        time.sleep(1.5)
        return ToolOk({})

    Agent.objects.filter(pk=agent.pk).update(inactivity_s=1)
    offer(monkeypatch, stand_in("slow", slow))
    model.calls(("slow", {}))
    model.says("It took a while.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert ended(run) == ("completed", "")
