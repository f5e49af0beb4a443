"""The package of the documentation: checked, called and recorded as any other."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.domain.manifests import parse_manifest
from apps.grants.services import grant_tool
from apps.packages.services import publish_package
from apps.proposals.services.drafts import create_proposal
from apps.rooms.models import Room
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.sandbox.runner import run_unittests
from apps.tools.checking.declarations import MANIFEST_NAME
from kaizen.supervisor.state import CLONE
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room
from tests.sandboxd.conftest import daemon, sandbox_home
from tests.sandboxd.daemon import Daemon

__all__ = ["daemon", "sandbox_home"]

HANDBOOK = CLONE / "examples" / "handbook"
pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]


def files() -> dict[str, bytes]:
    return {
        path.relative_to(HANDBOOK).as_posix(): path.read_bytes()
        for path in HANDBOOK.rglob("*")
        if path.is_file() and path.name != MANIFEST_NAME and "__pycache__" not in path.parts
    }


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HANDBOOK / MANIFEST_NAME).read_bytes())
    return found


@pytest.fixture
def member() -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def run(member: User, agent: Agent, daemon: Daemon, settings: Any) -> Run:
    """A run that holds all tools of the admitted package."""
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    read = parse_manifest(manifest())
    version = publish_package(manifest=read, files=files(), author=member, admitted_by=member)
    for tool in read.tools:
        grant_tool(agent_id=agent.pk, granter=member, ref=version.ref, tool=tool.tool_name)
    room: Room = make_room(member, agent)
    return claimed_run(room, agent, member)


def called(run: Run, tool: str, arguments: Any = None, step: int = 1) -> Call:
    call = crossed(run, tool, arguments or {}, step=step).call
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    call.refresh_from_db()
    return call


def block(call: Call, index: int = 0) -> Any:
    projection = projection_of(call)
    assert call.outcome == "ok", projection
    return projection["value"]["content"][index]


def test_a_program_answers_with_a_value_and_a_picture(run: Run) -> None:
    call = called(run, "pkg_count_handbook")
    words = block(call)["data"]["words"]
    assert words == {
        name: len((HANDBOOK / "rules" / name).read_text().split())
        for name in ("style.md", "words.md")
    }
    picture = block(call, 1)
    assert set(picture) == {"type", "mimeType", "digest", "bytes"}
    assert picture["mimeType"] == "image/png"


def test_what_a_call_stood_on_is_recorded_with_it(run: Run) -> None:
    call = called(run, "pkg_count_handbook")
    row = AuditRow.objects.get(action="call.settled", subject=f"call:{call.pk}")
    pin = hashlib.sha256((HANDBOOK / "tools" / "count").read_bytes()).hexdigest()
    assert row.detail["provenance"] == {
        "executionPaths": {"count_handbook": {"tools/count": pin}},
    }


def test_a_plain_program_is_given_words_and_never_a_shell(run: Run) -> None:
    found = block(called(run, "pkg_find_handbook", {"word": "not"}))["text"]
    assert found.splitlines() == [
        'rules/words.md:3:- say "use", not "utilize"',
        'rules/words.md:4:- say "about", not "approximately"',
    ]
    nothing = block(called(run, "pkg_find_handbook", {"word": "$(id); `id`"}, step=2))
    assert nothing["text"] == ""


def test_file_tools_read_and_search_what_was_admitted(run: Run) -> None:
    page = block(called(run, "pkg_read_handbook", {"path": "rules/style.md", "limit": 1}))["data"]
    assert page == {
        "artifactId": "handbook",
        "resolvedArtifactId": "rules",
        "path": "rules/style.md",
        "lines": [{"line": 1, "text": "# Style\n"}],
        "totalLines": 11,
    }
    lines = block(called(run, "pkg_grep_rules", {"pattern": "^# [SW]"}, step=2))["data"]
    assert [one["path"] for one in lines["matches"]] == ["style.md", "words.md"]
    names = block(called(run, "pkg_glob_handbook", {"pattern": "rules/*.md"}, step=3))["data"]
    assert names["matches"] == ["rules/style.md", "rules/words.md"]
    listed = block(called(run, "pkg_list_handbook", step=4))["data"]
    assert {"name": "rules", "kind": "directory"} in listed["entries"]


def test_tools_with_a_fixed_target_take_nothing(run: Run) -> None:
    section = block(called(run, "pkg_howto_handbook"))["data"]
    assert section["text"].endswith("Search for a word first, then read the section around it.\n")
    usage = block(called(run, "pkg_usage_handbook", step=2))
    assert usage["text"] == "usage: find WORD FOLDER\n"
    graph = block(called(run, "pkg_structure_handbook", step=3))["data"]["graph"]
    assert graph["children"]["rules"]["tools"] == ["grep_rules"]
    assert called(run, "pkg_howto_handbook", {"path": "README.md"}, step=4).reason == (
        "invalid_arguments"
    )


def test_a_request_that_is_not_met_is_the_caller_s_and_counts_against_no_tool(run: Run) -> None:
    gone = called(run, "pkg_read_handbook", {"path": "gone.md"})
    assert (gone.outcome, gone.reason, gone.domain) == ("error", "not_found", "caller")
    out = called(run, "pkg_read_handbook", {"path": "../secret"}, step=2)
    assert (out.outcome, out.reason, out.domain) == ("error", "invalid_arguments", "caller")


def test_the_package_passes_its_own_tests_and_can_be_proposed(daemon: Daemon, member: User) -> None:
    report = run_unittests(tree=files(), deadline_s=60, path=daemon.socket)
    assert (report.passed, report.ran) == (True, 2), report
    proposal = create_proposal(author=member, manifest=manifest(), files=files())
    assert proposal.manifest == manifest()


def check(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    call_command("tools", "check", *words)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_it_can_be_checked_where_it_lies(
    capsys: pytest.CaptureFixture[str], daemon: Daemon, settings: Any
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    (scope,) = check(capsys, str(HANDBOOK))["scopes"]
    assert scope["ready"]
    assert set(scope["tools"][0]["pins"]) == {"tools/count"}
    place = [str(HANDBOOK), "--execute", "--tool"]
    read = check(capsys, *place, "pkg_read_handbook", "--args", '{"path": "package.json"}')
    assert read["execution"]["value"]["content"][0]["data"]["totalLines"] == 1
    counted = check(capsys, *place, "pkg_count_handbook", "--args", "{}")
    assert counted["execution"]["value"]["content"][1]["data"].startswith("iVBOR")


def test_a_tool_for_people_is_run_by_a_reviewer_and_offered_to_nobody(
    capsys: pytest.CaptureFixture[str], daemon: Daemon, settings: Any
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    named = ["--repo", str(HANDBOOK.parent), "--artifact", "handbook", "--audience", "human"]
    report = check(capsys, *named, "--execute", "--tool", "words")
    assert report["execution"]["value"]["content"][0]["text"].startswith('- say "use"')
    (scope,) = report["scopes"]
    assert [one["tool"] for one in scope["human_tools"]] == ["words"]
    assert not any("words" in tool["tool"] for tool in scope["tools"])
