"""Anybody may ask why, about themselves; whoever keeps the policy may ask about anybody."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import change_agent
from apps.approvals.models import UnattendedAllowance
from apps.audit.models import AuditRow
from apps.automations.models import Automation
from apps.automations.services import change_automation, revoke_automation
from apps.domain.manifests import parse_manifest
from apps.domain.policy import RULES, NodeState
from apps.domain.tooling import Effect
from apps.grants.models import PolicyState
from apps.grants.services import change_policy, choose_tools, grant_tool
from apps.packages.services import publish_package
from apps.quotas.models import Quota
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import close_room, remove_participant
from apps.runs.models import Call, Run
from tests.factories import packages as made
from tests.factories.automations import OWN_TABLES, make_automation, started_run
from tests.factories.clients import client_of, problem, without_correlation
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import crossed

WHERE = "/api/v1/explain"
TOOL = "pkg_weather_convert"


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x")


@pytest.fixture
def package(mara: User, ines: User) -> str:
    version = publish_package(
        manifest=parse_manifest(made.manifest()),
        files=made.tree(),
        author=mara,
        admitted_by=ines,
    )
    return version.ref


def ask(
    client: APIClient, room: Any, agent: Any, tool: str = "create_artifact", **more: str
) -> Any:
    slug = getattr(agent, "slug", agent)
    return client.get(
        WHERE, {"agent": slug, "room": getattr(room, "pk", room), "tool": tool, **more}
    )


def explained(*args: Any, **more: str) -> dict[str, Any]:
    answer = ask(*args, **more)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def said(body: dict[str, Any]) -> dict[str, str]:
    return {rule["rule"]: rule["finding"] for rule in body["rules"]}


def test_a_member_learns_what_would_become_of_a_call(
    as_mara: APIClient, room: Room, agent: Agent, mara: User
) -> None:
    body = explained(as_mara, room, agent)
    assert (body["verdict"], body["decided_by"], body["reason"]) == (
        "allowed",
        "nothing_refuses",
        None,
    )
    assert body["member"]["username"] == mara.username
    assert [rule["rule"] for rule in body["rules"]] == [rule.name for rule in RULES]
    assert set(said(body).values()) == {"passed"}


def test_it_changes_nothing_and_needs_no_run(as_mara: APIClient, room: Room, agent: Agent) -> None:
    before = [model.objects.count() for model in (Run, Call, AuditRow, RoomEvent, PolicyState)]
    explained(as_mara, room, agent)
    with CaptureQueriesContext(connection) as captured:
        explained(as_mara, room, agent)
    writes = [q["sql"] for q in captured if (q["sql"] or "").startswith(("INSERT", "DELETE"))]
    assert writes == []
    after = [model.objects.count() for model in (Run, Call, AuditRow, RoomEvent, PolicyState)]
    assert before == after


def test_every_reason_is_named_and_the_first_decides(
    as_mara: APIClient, room: Room, agent: Agent, mara: User, ines: User
) -> None:
    change_policy(actor=ines, revision=0, changes={("kaizen", "artifacts"): NodeState.DISABLED})
    change_agent(agent_id=agent.pk, actor=mara, changes={"ceiling": ["docs.read"]})
    choose_tools(room_id=room.pk, agent_slug=agent.slug, member=mara, tools=[])
    body = explained(as_mara, room, agent)
    assert (body["verdict"], body["decided_by"]) == ("refused", "policy_tree_allows")
    assert body["reason"] == "permission_denied"
    assert "the surface artifacts" in body["says"]
    assert {rule for rule, finding in said(body).items() if finding == "refused"} == {
        "policy_tree_allows",
        "agent_ceiling_covers",
        "member_choice_holds",
    }
    other = explained(as_mara, room, agent, "search_about")
    assert other["decided_by"] == "member_choice_holds"


def test_an_explanation_agrees_with_what_becomes_of_the_call(
    as_mara: APIClient, run: Run, agent: Agent, mara: User, ines: User
) -> None:
    note = {"title": "A note", "kind": "markdown", "body": "# Hello"}
    steps: list[Any] = [
        lambda: None,
        lambda: change_policy(actor=ines, revision=0, changes={("kaizen",): NodeState.DISABLED}),
        lambda: change_policy(actor=ines, revision=1, changes={("kaizen",): NodeState.UNSET}),
        lambda: choose_tools(
            room_id=run.room_id, agent_slug=agent.slug, member=mara, tools=["read_artifact"]
        ),
        lambda: change_agent(agent_id=agent.pk, actor=mara, changes={"enabled": False}),
    ]
    seen = []
    for number, step in enumerate(steps, start=1):
        step()
        body = explained(as_mara, run.room_id, agent)
        call = crossed(run, "create_artifact", {**note, "title": str(number)}, step=number).call
        assert (call.rule, call.reason) == (body["decided_by"], body["reason"] or "")
        seen.append(call.rule)
    assert seen == [
        "nothing_refuses",
        "policy_tree_allows",
        "nothing_refuses",
        "member_choice_holds",
        "agent_is_enabled",
    ]


def test_a_package_tool_is_explained_before_and_after_it_was_granted(
    as_mara: APIClient, room: Room, agent: Agent, mara: User, package: str
) -> None:
    before = explained(as_mara, room, agent, TOOL)
    assert (before["verdict"], before["decided_by"]) == ("refused", "agent_was_granted")
    grant_tool(agent_id=agent.pk, granter=mara, ref=package, tool=TOOL)
    assert explained(as_mara, room, agent, TOOL)["verdict"] == "allowed"


def test_a_tool_that_nobody_has_is_said_not_to_be_there(
    as_mara: APIClient, room: Room, agent: Agent
) -> None:
    body = explained(as_mara, room, agent, "fly_to_the_moon")
    assert (body["verdict"], body["decided_by"]) == ("refused", "tool_is_in_catalog")
    assert [rule["finding"] for rule in body["rules"]] == ["refused"]


def test_a_closed_room_and_a_member_who_left_are_explained_to_the_keeper(
    ines: User, mara: User, tomas: User, room: Room, agent: Agent
) -> None:
    as_ines = client_of(ines)
    allowed = explained(as_ines, room, agent, member=tomas.username)
    assert allowed["verdict"] == "allowed"
    remove_participant(room_id=room.pk, actor=tomas, username=tomas.username)
    gone = explained(as_ines, room, agent, member=tomas.username)
    assert gone["decided_by"] == "member_takes_part"
    close_room(room_id=room.pk, actor=mara)
    assert explained(as_ines, room, agent, member=mara.username)["decided_by"] == "room_is_open"


def test_what_a_member_may_not_ask_about_looks_like_nothing(
    as_mara: APIClient,
    as_stranger: APIClient,
    room: Room,
    agent: Agent,
    mara: User,
    tomas: User,
    stranger: User,
) -> None:
    missing = ask(as_mara, uuid.uuid4(), agent)
    problem(missing, 404, "not_found")
    # A foreign room, an agent or a member that is not there, and a member who is.
    alike = [
        ask(as_stranger, room, agent),
        ask(as_mara, room, "no-such-agent"),
        ask(as_mara, room, agent, member=tomas.username),
        ask(as_mara, room, agent, member="nobody-at-all"),
    ]
    for answer in alike:
        problem(answer, 404, "not_found")
        assert without_correlation(answer) == without_correlation(missing)
    # One's own name is no other's.
    assert ask(as_mara, room, agent, member=mara.username).status_code == 200


def test_who_takes_part_may_ask_about_an_agent_that_sits_there(
    as_tomas: APIClient, as_mara: APIClient, room: Room, agent: Agent
) -> None:
    assert explained(as_tomas, room, agent)["verdict"] == "allowed"
    as_mara.delete(f"/api/v1/rooms/{room.pk}/seats/{agent.slug}")
    problem(ask(as_tomas, room, agent), 404, "not_found")
    # Its manager may still ask what it could do there.
    assert explained(as_mara, room, agent)["verdict"] == "allowed"


def test_it_costs_a_bounded_number_of_statements(
    as_mara: APIClient, room: Room, agent: Agent, mara: User, django_assert_max_num_queries: Any
) -> None:
    explained(as_mara, room, agent)
    with django_assert_max_num_queries(10):
        explained(as_mara, room, agent)


# --- where no person starts the run


@pytest.fixture
def automation(mara: User, agent: Agent, room: Room) -> Automation:
    change_agent(agent_id=agent.pk, actor=mara, changes={"ceiling": OWN_TABLES})
    return make_automation(mara, agent, room).automation


def ask_for(client: APIClient, automation: Any, tool: str = "create_artifact", **more: str) -> Any:
    ident = getattr(automation, "pk", automation)
    return client.get(WHERE, {"automation": ident, "tool": tool, **more})


def test_a_call_of_an_unattended_run_is_explained_under_its_grant(
    as_mara: APIClient, automation: Automation, mara: User, room: Room, agent: Agent
) -> None:
    body = ask_for(as_mara, automation).json()
    assert body["automation"] == str(automation.pk)
    assert (body["agent"], body["room"]) == (agent.slug, str(room.pk))
    assert (body["verdict"], said(body)["automation_grant_holds"]) == ("allowed", "passed")
    change_automation(automation_id=automation.pk, member=mara, changes={"enabled": False})
    paused = ask_for(as_mara, automation).json()
    assert (paused["verdict"], paused["decided_by"]) == ("refused", "automation_grant_holds")
    assert "paused" in paused["says"]
    # Of a run that the member starts, the same question has another answer.
    assert explained(as_mara, room, agent)["verdict"] == "allowed"
    assert explained(as_mara, room, agent)["automation"] is None


def test_what_an_automation_is_told_agrees_with_what_becomes_of_its_calls(
    as_mara: APIClient, automation: Automation, mara: User
) -> None:
    run = started_run(automation)
    seen = []
    for number, lose in enumerate([lambda: None, lambda: revoke(automation, mara)], start=1):
        lose()
        body = ask_for(as_mara, automation).json()
        note = {"title": str(number), "kind": "markdown", "body": "# Hello"}
        call = crossed(run, "create_artifact", note, step=number).call
        assert (call.rule, call.reason) == (body["decided_by"], body["reason"] or "")
        seen.append(call.rule)
    assert seen == ["nothing_refuses", "automation_grant_holds"]


def revoke(automation: Automation, member: User) -> None:
    revoke_automation(automation_id=automation.pk, actor=member)


def test_a_tool_that_asks_unattended_asks_only_where_its_automation_lets_it(
    as_mara: APIClient,
    automation: Automation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = Letters(tmp_path / "letters")
    tool = outside_tool(letters.handler, name="send_report", needs_approval_when_unattended=True)
    offer(monkeypatch, tool)
    asks = ask_for(as_mara, automation, "send_report").json()
    assert asks["verdict"] == "asks"
    UnattendedAllowance.objects.create(
        automation=automation, trigger=automation.trigger, tool="send_report"
    )
    assert ask_for(as_mara, automation, "send_report").json()["verdict"] == "allowed"


@pytest.mark.parametrize(
    ("effect", "verdict", "rule"),
    [
        (Effect.READ, "refused", "quota_holds_it"),
        # A yes may come after the quota has renewed, so it is asked all the same.
        (Effect.WRITE, "asks", "somebody_said_yes"),
    ],
)
def test_a_spent_quota_is_named_before_a_call_meets_it(
    as_mara: APIClient,
    room: Room,
    agent: Agent,
    mara: User,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    effect: Effect,
    verdict: str,
    rule: str,
) -> None:
    offer(monkeypatch, outside_tool(Letters(tmp_path / "letters").handler, effect=effect))
    assert "quota_holds_it" not in said(explained(as_mara, room, agent, "send_letter"))
    Quota.objects.create(subject="member", member=mara, unit="calls", period="day", most=0)
    body = explained(as_mara, room, agent, "send_letter")
    assert (body["verdict"], body["decided_by"]) == (verdict, rule)
    assert said(body)["quota_holds_it"] == "refused"
    assert "It renews on" in body["rules"][-1]["says"]
    # What is only ours takes from no quota.
    assert explained(as_mara, room, agent)["verdict"] == "allowed"


def test_a_connection_that_is_not_there_is_named_before_a_call_misses_it(
    as_mara: APIClient, room: Room, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler, uses_connection=True))
    body = explained(as_mara, room, agent, "send_letter")
    assert (body["verdict"], body["decided_by"]) == ("refused", "connection_is_there")
    assert body["reason"] == "dependency_unavailable"


def test_an_automation_is_asked_about_by_itself_and_by_whom_it_concerns(
    as_mara: APIClient,
    as_tomas: APIClient,
    ines: User,
    automation: Automation,
    mara: User,
    room: Room,
    agent: Agent,
) -> None:
    missing = ask_for(as_mara, uuid.uuid4())
    problem(missing, 404, "not_found")
    foreign = ask_for(as_tomas, automation)
    problem(foreign, 404, "not_found")
    assert without_correlation(foreign) == without_correlation(missing)
    assert ask_for(client_of(ines), automation).json()["member"]["username"] == mara.username
    for more in ({"agent": agent.slug}, {"room": str(room.pk)}, {"member": mara.username}):
        problem(ask_for(as_mara, automation, **more), 422, "invalid")
    problem(as_mara.get(WHERE, {"tool": "create_artifact"}), 422, "invalid")
    problem(as_mara.get(WHERE, {"tool": "create_artifact", "agent": agent.slug}), 422, "invalid")


# --- what a member keeps


def choice(room: Room, agent: Agent) -> str:
    return f"/api/v1/rooms/{room.pk}/seats/{agent.slug}/tools"


def test_a_member_keeps_some_tools_of_an_agent_and_takes_the_choice_back(
    as_mara: APIClient, as_tomas: APIClient, room: Room, agent: Agent
) -> None:
    at_first = as_mara.get(choice(room, agent)).json()
    assert at_first["narrowed"] is False
    assert all(tool["kept"] for tool in at_first["tools"])
    chosen = as_mara.put(choice(room, agent), {"tools": ["search_about"]}).json()
    assert chosen["narrowed"] is True
    assert [tool["name"] for tool in chosen["tools"] if tool["kept"]] == ["search_about"]
    # What was taken away is still listed, so that it can come back.
    assert len(chosen["tools"]) == len(at_first["tools"])
    assert as_tomas.get(choice(room, agent)).json()["narrowed"] is False
    assert as_mara.delete(choice(room, agent)).status_code == 204
    assert as_mara.get(choice(room, agent)).json() == at_first


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        (["no good name"], "bad_choice"),
        ([1], "invalid"),
        ("x", "invalid"),
        (["a"] * 201, "invalid"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(
    as_mara: APIClient, room: Room, agent: Agent, tools: Any, code: str
) -> None:
    problem(as_mara.put(choice(room, agent), {"tools": tools}), 422, code)


def test_a_choice_in_a_foreign_room_is_a_choice_nowhere(
    as_stranger: APIClient, room: Room, agent: Agent
) -> None:
    nowhere = choice(room, agent).replace(str(room.pk), str(uuid.uuid4()))
    for method in ("get", "put", "delete"):
        body = {"tools": []} if method == "put" else None
        foreign = getattr(as_stranger, method)(choice(room, agent), body)
        missing = getattr(as_stranger, method)(nowhere, body)
        problem(foreign, 404, "not_found")
        assert without_correlation(foreign) == without_correlation(missing)
