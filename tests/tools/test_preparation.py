"""A tool whose programs cannot be prepared is offered to no model, and it is said why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.audit.models import AuditRow
from apps.boundary.explaining import explain_call
from apps.domain.canonical import digest
from apps.domain.commandio.preparation import pins_of_package
from apps.domain.manifests import parse_manifest
from apps.grants.services import grant_tool
from apps.packages.errors import CannotPrepare
from apps.packages.models import Package, PackageFile, PackageVersion
from apps.packages.services import publish_package
from apps.rooms.models import Room
from apps.runs.models import Run
from apps.sandbox.client import ProbeReport
from apps.sandboxd.probe import ProbeStatus
from apps.tools import features, health
from apps.tools.catalog import offered_tools
from apps.tools.packaged import as_tool
from tests.factories import packages as made

TOOL = "pkg_count_weather"


def declared(**item: Any) -> dict[str, Any]:
    raw = made.manifest("weather", "1.0.0", made.definition("weather.count"))
    entry = {"protocol": "json", "command": "tools/run", "args": [], "execution_paths": ["tools"]}
    raw["tools"][0] |= {"entry": entry, **item}
    return raw


TREE = {**made.tree(), "tools/run": b"#!/bin/sh\n"}


def published(member: User, raw: dict[str, Any]) -> PackageVersion:
    return publish_package(
        manifest=parse_manifest(raw), files=TREE, author=member, admitted_by=member
    )


@pytest.fixture
def granted(member: User, agent: Agent) -> PackageVersion:
    version = published(member, declared())
    grant_tool(agent_id=agent.pk, granter=member, ref=version.ref, tool=TOOL)
    return version


def offered(agent: Agent, room: Room, member: User) -> bool:
    run = Run(room=room, agent=agent, member=member)
    return any(tool.spec.name == TOOL for tool in offered_tools(run))


def test_what_was_pinned_at_admission_is_written_down(granted: PackageVersion) -> None:
    row = AuditRow.objects.get(action="package.published")
    pins = pins_of_package(parse_manifest(declared()), TREE)
    assert row.detail["pins"] == digest(pins)


def test_a_package_that_cannot_be_prepared_is_not_admitted(member: User) -> None:
    raw = declared()
    raw["tools"][0]["entry"]["execution_paths"] = ["lost"]
    with pytest.raises(CannotPrepare, match=r"PREPARATION_FAILED: .*lost.* is not there"):
        published(member, raw)
    assert not Package.objects.exists()


def test_a_tool_that_cannot_be_prepared_is_not_offered_and_is_refused_with_the_reason(
    granted: PackageVersion, agent: Agent, room: Room, member: User
) -> None:
    PackageFile.objects.filter(version=granted, path="tools/run").delete()
    assert not offered(agent, room, member)
    explained = explain_call(
        asker=member, agent_slug=agent.slug, room_id=room.pk, tool_name=TOOL
    ).explanation
    verdict: Any = explained.verdict
    assert verdict.rule == "tool_is_enabled"
    assert verdict.message.startswith("PREPARATION_FAILED: ")


def test_a_file_tool_whose_file_is_gone_is_not_offered_either(
    member: User, agent: Agent, room: Room
) -> None:
    raw = made.manifest("weather", "1.0.0", made.definition("weather.count"))
    raw["artifacts"] = [{"id": "run", "kind": "file", "path": "tools/run"}]
    raw["tools"][0]["entry"] = {"builtin": "read", "artifact": "run"}
    raw["tools"][0]["definition"] |= {"input": {"type": "object"}}
    version = published(member, raw)
    PackageFile.objects.filter(version=version, path="tools/run").delete()
    tool = as_tool(version.tools.get())
    assert tool is not None
    assert not tool.runs_code
    assert "The file of the artifact run is not there." in tool.hindrance


def test_a_tool_that_can_be_prepared_is_offered(
    granted: PackageVersion, agent: Agent, room: Room, member: User
) -> None:
    assert offered(agent, room, member)


def test_a_version_is_looked_at_once(
    granted: PackageVersion, django_assert_num_queries: Any
) -> None:
    row = granted.tools.select_related("version").get()
    with django_assert_num_queries(1):
        assert as_tool(row)
    with django_assert_num_queries(0):
        assert as_tool(row)


@pytest.mark.parametrize(
    ("runtimes", "word", "said"),
    [
        (("node", "office", "pi"), "ok", "Every runtime that a tool can ask for is prepared."),
        (("node", "office"), "ok", "No tool needs what is not prepared: pi."),
        (("node", "pi"), "off", f"Not prepared: office. Off therefore: {TOOL}."),
        (("office",), "off", "Off therefore: run_code for Node programs."),
    ],
)
def test_readiness_names_the_tools_whose_runtime_is_not_prepared(
    member: User,
    monkeypatch: pytest.MonkeyPatch,
    runtimes: tuple[str, ...],
    word: str,
    said: str,
) -> None:
    published(member, declared(runtime="office"))
    report = ProbeReport(ProbeStatus.READY, "", runtimes=tuple((one, "1") for one in runtimes))
    monkeypatch.setattr(health, "available", lambda **_: report)
    client = Client()
    member.is_staff = True
    member.save()
    client.force_login(member)
    answer = client.get("/readyz")
    # Requests are served all the same.
    assert answer.status_code == 200
    assert answer.json()["parts"]["tools"] == word
    assert said in answer.json()["details"]["tools"]


def test_readiness_tells_of_no_tool_while_there_is_no_sandbox_or_no_store(
    member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        raise DatabaseError("secret")

    report = ProbeReport(ProbeStatus.READY, "", runtimes=(("node", "1"),))
    monkeypatch.setattr(health, "available", lambda **_: report)
    monkeypatch.setattr(health, "active_package_tools", gone)
    part = health.tools_part()
    assert part.sentence.startswith("Not prepared: office, pi. Off therefore: whichever")
    off = ProbeReport(ProbeStatus.NOT_RUNNING, "Nobody listens.")
    monkeypatch.setattr(health, "available", lambda **_: off)
    assert (health.tools_part().word, health.tools_part().holds) == ("off", True)


@pytest.mark.parametrize(
    ("status", "offers"),
    [
        (ProbeStatus.READY, True),
        # Nobody answers on a machine that serves pages alone; workers elsewhere may have one.
        (ProbeStatus.NOT_RUNNING, True),
        (ProbeStatus.NOT_LINUX, False),
        (ProbeStatus.NO_USER_NAMESPACES, False),
        (ProbeStatus.LEAKY, False),
    ],
)
def test_where_no_code_can_be_confined_no_tool_that_is_code_is_offered(
    granted: PackageVersion,
    agent: Agent,
    room: Room,
    member: User,
    monkeypatch: pytest.MonkeyPatch,
    status: ProbeStatus,
    offers: bool,
) -> None:
    monkeypatch.setattr(features, "available", lambda **_: ProbeReport(status, "Says why."))
    assert offered(agent, room, member) is offers
    explained = explain_call(
        asker=member, agent_slug=agent.slug, room_id=room.pk, tool_name=TOOL
    ).explanation
    assert (explained.decided_by == "tool_is_enabled") is not offers


def test_a_runtime_that_the_sandbox_lacks_keeps_the_tool_away(
    member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = published(member, declared(runtime="office")).tools.get()
    tool = as_tool(row)
    assert tool is not None
    assert tool.runtimes == {"office"}
    there = ProbeReport(ProbeStatus.READY, "", runtimes=(("office", "1"),))
    missing = "This deployment has no working office runtime"
    for report, hindrance in ((there, ""), (replace(there, runtimes=()), missing)):
        monkeypatch.setattr(features, "available", lambda report=report, **_: report)
        assert tool.hindrance.partition(":")[0] == hindrance
