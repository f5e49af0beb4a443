"""Administrators' programs keep the tool policy; nobody's change is overwritten unseen."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRule
from apps.audit.models import AuditRow
from apps.grants.models import PinnedArguments, PolicyNode, PolicyState
from apps.rooms.models import Room
from tests.factories.clients import client_of, problem
from tests.factories.rooms import claimed_run, crossed

WHERE = "/api/v1/policy"
PINS = f"{WHERE}/pins/kaizen/artifacts/create_artifact"
OFF = {"changes": [{"node": "kaizen/artifacts", "state": "disabled"}], "note": "For now"}


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x")


@pytest.fixture
def program(ines: User) -> APIClient:
    return client_of(ines)


def change(client: APIClient, body: Any, revision: object = 0, where: str = WHERE) -> Any:
    verb = client.put if "/pins/" in where else client.patch
    return verb(where, body, format="json", headers={"If-Match": f'"{revision}"'})


def test_a_change_is_kept_recorded_and_holds_for_the_next_call(
    program: APIClient, room: Room, agent: Agent, mara: User
) -> None:
    run = claimed_run(room, agent, mara)
    answer = change(program, OFF)
    assert answer.status_code == 200, answer.content
    assert (answer["ETag"], answer.json()["revision"]) == ('"1"', 1)
    [node] = answer.json()["nodes"]
    assert (node["node"], node["state"], node["note"]) == (
        "kaizen/artifacts", "disabled", "For now",
    )  # fmt: skip
    assert AuditRow.objects.get(action="policy.changed").actor == PolicyNode.objects.get(
    ).changed_by.key  # fmt: skip
    note = {"title": "x", "kind": "text", "body": "x"}
    assert crossed(run, "create_artifact", note).call.rule == "policy_tree_allows"
    assert program.get(WHERE).json() == answer.json()


def test_a_change_on_another_revision_than_the_one_that_holds_changes_nothing(
    program: APIClient,
) -> None:
    change(program, OFF)
    taken_back = {"changes": [{"node": "kaizen/artifacts", "state": "unset"}]}
    problem(change(program, taken_back, revision=0), 412, "stale_policy")
    problem(change(program, taken_back, revision="x"), 412, "stale_policy")
    problem(program.patch(WHERE, taken_back, format="json"), 428, "revision_required")
    assert PolicyNode.objects.get().state == "disabled"
    assert change(program, taken_back, revision=1).json()["nodes"] == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([{"node": "kaizen", "state": "allowed"}], "bad_policy"),
        ([{"node": "a/b/c/d", "state": "disabled"}], "bad_policy"),
        ([{"node": "KAIZEN", "state": "disabled"}], "bad_policy"),
        ([{"node": "kaizen", "state": "perhaps"}], "invalid"),
        ([{"node": "kaizen", "state": "disabled"}] * 2, "bad_policy"),
        ([], "invalid"),
        ([{"node": "kaizen", "state": "disabled", "by": 1}], "invalid"),
    ],
)
def test_what_the_policy_cannot_say_is_refused_whole(
    program: APIClient, changes: Any, code: str
) -> None:
    whole = {"changes": [{"node": "packages", "state": "disabled"}, *changes]}
    problem(change(program, whole if changes else {"changes": []}), 422, code)
    assert not PolicyNode.objects.exists()


@pytest.mark.parametrize("where", ["", "/tools", "/pins", "/pins/kaizen/artifacts/read_artifact"])
def test_nobody_but_who_keeps_the_policy_reads_it(as_mara: APIClient, where: str) -> None:
    problem(as_mara.get(WHERE + where), 403, "forbidden")
    assert AuditRow.objects.filter(action="api.forbidden").count() == 1


def test_nobody_but_who_keeps_the_policy_changes_it(as_mara: APIClient, mara: User) -> None:
    problem(change(as_mara, OFF), 403, "forbidden")
    problem(change(as_mara, {"values": {"kind": "text"}}, where=PINS), 403, "forbidden")
    problem(as_mara.delete(PINS, headers={"If-Match": '"0"'}), 403, "forbidden")
    problem(as_mara.post(f"{WHERE}/preview", OFF, format="json"), 403, "forbidden")
    assert not PolicyState.objects.filter(revision__gt=0).exists()
    refused = AuditRow.objects.filter(action="api.forbidden", actor=mara.key, outcome="refused")
    assert refused.count() == 4


def test_a_preview_says_what_a_change_would_do_and_changes_nothing(
    program: APIClient, room: Room, agent: Agent, mara: User
) -> None:
    claimed_run(room, agent, mara)
    found = program.post(f"{WHERE}/preview", OFF, format="json").json()
    assert "create_artifact" in found["lost"]
    assert (found["gained"], found["agents"], found["runs"]) == ([], 1, 1)
    assert not PolicyNode.objects.exists()


def test_the_tools_say_what_holds_and_which_node_decided(program: APIClient) -> None:
    change(program, OFF)
    listed = program.get(f"{WHERE}/tools", {"under": "kaizen/artifacts"}).json()
    tools = {tool["node"].split("/")[-1]: tool for tool in listed["tools"]}
    assert "list_available_agents" not in tools
    create = tools["create_artifact"]
    assert (create["allowed"], create["why"], create["decided_by"], create["asks"]) == (
        False, "disabled", "kaizen/artifacts", False,
    )  # fmt: skip


def test_a_rule_that_tightens_shows_in_what_asks(program: APIClient) -> None:
    ApprovalRule.objects.create(family="kaizen", surface="artifacts", floor="always")
    listed = program.get(f"{WHERE}/tools", {"under": "kaizen"}).json()
    asks = {tool["node"].split("/")[-1] for tool in listed["tools"] if tool["asks"]}
    assert "create_artifact" in asks
    assert "list_available_agents" not in asks


def test_arguments_are_pinned_read_and_left_to_the_caller_again(
    program: APIClient, room: Room, agent: Agent, mara: User
) -> None:
    answer = change(program, {"values": {"kind": "text"}, "note": "Plain"}, where=PINS)
    assert answer.status_code == 200, answer.content
    assert answer["ETag"] == '"1"'
    assert program.get(PINS).json()["values"] == {"kind": "text"}
    [listed] = program.get(f"{WHERE}/pins").json()["pins"]
    assert listed["node"] == "kaizen/artifacts/create_artifact"
    run = claimed_run(room, agent, mara)
    made = crossed(run, "create_artifact", {"title": "x", "body": "x"})
    assert made.call.outcome == "ok"
    row = AuditRow.objects.get(action="policy.arguments_pinned")
    assert "text" not in str(row.detail.get("arguments"))
    problem(program.delete(PINS, headers={"If-Match": '"0"'}), 412, "stale_policy")
    assert program.delete(PINS, headers={"If-Match": '"1"'}).status_code == 204
    problem(program.get(PINS), 404, "not_found")
    assert AuditRow.objects.filter(action="policy.arguments_unpinned").count() == 1


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"kind": "sculpture"}, "kind"),
        ({"nothing": 1}, "no argument"),
        ({"body": "x"}, "shown while it is written"),
    ],
)
def test_what_cannot_be_pinned_is_refused_with_its_reason(
    program: APIClient, values: Any, says: str
) -> None:
    told = problem(change(program, {"values": values}, where=PINS), 422, "bad_pinned_value")
    assert says in told["detail"]
    assert not PinnedArguments.objects.exists()


def test_no_arguments_are_pinned_of_a_tool_that_is_not_there(program: APIClient) -> None:
    where = f"{WHERE}/pins/kaizen/artifacts/no_such_tool"
    problem(change(program, {"values": {"a": 1}}, where=where), 404, "not_found")
