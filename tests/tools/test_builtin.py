"""Each built-in tool: what the model sees, who is denied, and what a failure leaves behind."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.core.deadlines import Deadline
from apps.domain.directives import read_directive
from apps.rooms.models import Room
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.sandbox.contents import contents, take_back
from apps.sandbox.leases import hold
from apps.sandbox.models import Workspace
from apps.sandbox.spec import WorkChanges, WorkFile
from apps.tools import catalog
from apps.tools.contract import CallContext
from apps.tools.registry import AGENT_LOOP_TOOL_NAMES, BUILTIN_TOOLS
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

AT_ONCE = [
    pytest.param(name, marks=[pytest.mark.sandbox] if tool.needs_sandbox else [])
    for name, tool in sorted(BUILTIN_TOOLS.items())
    if not tool.spec.later
]
"""What is carried out within the transaction that settles it."""
BEFORE = b"x = 1\n"
NOTE = {"title": "A note", "kind": "markdown", "body": "one\ntwo\nthree"}


@pytest.fixture(autouse=True)
def sandboxed(request: pytest.FixtureRequest) -> None:
    """Have the sandbox there for a tool that is only offered beside it."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name and BUILTIN_TOOLS[name].needs_sandbox:
        request.getfixturevalue("supervised")


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    return claimed_run(room, agent, member)


@pytest.fixture
def note(run: Run) -> Artifact:
    crossed(run, "create_artifact", NOTE)
    make_agent(run.member, slug="helper")
    return Artifact.objects.get()


@pytest.fixture
def draft(run: Run) -> dict[str, Any]:
    """Where a draft of the run stands after its first piece."""
    at = seen(run, "begin_artifact", {"title": "A draft", "kind": "text"}, step=10)["value"]
    cursor = {key: at[key] for key in ("draft_id", "sequence", "digest")}
    at = seen(run, "append_artifact", {**cursor, "text": "one"}, step=11)["value"]
    return {key: at[key] for key in ("draft_id", "sequence", "digest")}


def valid_arguments(name: str, note: Artifact, draft: dict[str, Any]) -> dict[str, Any]:
    if name == "edit_workspace":
        return {"patch": a_patch()}
    return {
        "begin_artifact": {"title": "Another draft", "kind": "text"},
        "append_artifact": {**draft, "text": "two"},
        "finalize_artifact": draft,
        "discard_artifact": {"draft_id": draft.get("draft_id")},
        "create_artifact": {**NOTE, "title": "Another"},
        "update_artifact": {"artifact_id": str(note.pk), "expected_version": 1, "body": "new"},
        "read_artifact": {"artifact_id": str(note.pk)},
        "list_available_agents": {},
        "invoke_agent": {"agent": "helper", "task": "Read what was written."},
        "search_about": {"query": "receipt"},
        "read_workspace": {},
    }[name]


def a_patch() -> str:
    """An edit of a file of the run's workspace, by lines that were shown."""
    run = Run.objects.get()
    deadline = Deadline.after(30)
    with hold(owner=run.member, room_id=run.room_id, call_id=None, deadline=deadline) as lease:
        take_back(lease, WorkChanges(changed=(WorkFile("a.py", BEFORE),)))
    shown = seen(run, "read_workspace", {"path": "a.py"}, step=12)["value"]["text"]
    return f"{shown.splitlines()[0]}\nPUT 1.=1:\n+x = 2"


def files() -> set[bytes]:
    """What lies in workspaces now."""
    return {file.content for space in Workspace.objects.all() for file in contents(space)}


def seen(run: Run, name: str, arguments: dict[str, Any], step: int = 2) -> dict[str, Any]:
    """What the model is told of one call."""
    projection = projection_of(crossed(run, name, arguments, step=step).call)
    assert projection is not None
    return projection


def stood_on(tool: str) -> Any:
    """What the audit trail says that the result of this tool's one call stood on."""
    return AuditRow.objects.get(action="call.settled", detail__tool=tool).detail["provenance"]


def test_create_tells_the_id_and_version_and_not_the_body(run: Run) -> None:
    told = seen(run, "create_artifact", NOTE)
    artifact = Artifact.objects.get()
    assert told["value"]["artifact_id"] == str(artifact.pk)
    assert told["value"]["version"] == 1
    assert told["artifacts"] == [f"{artifact.pk}:1"]
    assert "three" not in str(told)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"title": "Report.DOCX"}, "Word"),
        ({"title": " "}, "title"),
        ({"title": "a\u202eb"}, "printable"),
        ({"body": "x" * 100_001}, "body"),
    ],
)
def test_create_says_what_is_wrong_and_saves_nothing(
    run: Run, change: dict[str, str], field: str
) -> None:
    told = seen(run, "create_artifact", {**NOTE, **change})
    assert told["reason"] == "invalid_arguments"
    assert field in told["message"]
    assert not Artifact.objects.exists()


def test_a_body_of_exactly_the_bound_is_saved(run: Run) -> None:
    assert seen(run, "create_artifact", {**NOTE, "body": "é" * 100_000})["outcome"] == "ok"


def test_update_adds_a_version_and_keeps_the_one_before(run: Run, note: Artifact) -> None:
    told = seen(run, "update_artifact", valid_arguments("update_artifact", note, {}))
    assert told["value"]["version"] == 2
    assert sorted(note.versions.values_list("number", flat=True)) == [1, 2]


def test_read_numbers_the_lines_and_says_how_many_there_are(run: Run, note: Artifact) -> None:
    told = seen(run, "read_artifact", {"artifact_id": str(note.pk), "first_line": 2})
    assert told["value"]["lines"] == ["2: two", "3: three"]
    assert told["value"]["total_lines"] == 3


def test_read_returns_at_most_four_hundred_lines(run: Run) -> None:
    made = seen(run, "create_artifact", {**NOTE, "body": "x\n" * 500})
    told = seen(run, "read_artifact", {"artifact_id": made["value"]["artifact_id"]}, step=3)
    assert len(told["value"]["lines"]) == 400
    assert told["value"]["total_lines"] == 501


def test_list_shows_only_agents_that_the_member_may_use(run: Run) -> None:
    make_agent(make_member(), slug="foreign")
    told = seen(run, "list_available_agents", {})
    assert [agent["slug"] for agent in told["value"]["agents"]] == ["scribe"]
    assert told["value"]["more"] is False


def test_search_returns_bounded_excerpts_of_our_own_pages(run: Run) -> None:
    told = seen(run, "search_about", {"query": "why can a receipt be spent only once"})
    assert told["value"]["excerpts"]
    assert len(str(told)) < 12_000


def test_a_question_about_the_product_brings_its_search_forward_and_grants_nothing() -> None:
    hints = {name: tool.spec.intent_hints for name, tool in BUILTIN_TOOLS.items()}
    asked = "How does Kaizen keep a receipt from being used twice?"
    everything = read_directive(asked, authorized=AGENT_LOOP_TOOL_NAMES, hints=hints)
    assert everything.preferred == ("search_about",)
    without = read_directive(asked, authorized={"read_artifact"}, hints=hints)
    assert without.preferred == ()


@pytest.mark.parametrize(
    "asked", ["Make a PDF of it", "a Word document, please", "Build the PowerPoint", "as .xlsx"]
)
def test_a_native_file_that_is_asked_for_prefers_run_code_where_it_is_granted(asked: str) -> None:
    hints = {name: tool.spec.intent_hints for name, tool in BUILTIN_TOOLS.items()}
    granted = read_directive(asked, authorized=AGENT_LOOP_TOOL_NAMES, hints=hints)
    assert granted.preferred == ("run_code",)
    without = AGENT_LOOP_TOOL_NAMES - {"run_code"}
    assert read_directive(asked, authorized=without, hints=hints).preferred == ()


def test_the_trail_says_which_version_was_read_and_which_pages_answered(
    run: Run, note: Artifact
) -> None:
    version = note.versions.get()
    seen(run, "read_artifact", {"artifact_id": str(note.pk)})
    read = {"artifact": str(note.pk), "version": 1, "digest": version.blob_id}
    assert stood_on("read_artifact") == {"read": read}

    told = seen(run, "search_about", {"query": "receipt"}, step=3)
    pages = [excerpt["path"] for excerpt in told["value"]["excerpts"]]
    assert pages
    assert stood_on("search_about") == {"pages": pages}
    assert "three" not in str(AuditRow.objects.filter(action="call.settled").values())


def test_a_draft_that_was_read_is_in_the_trail_as_far_as_it_went(
    run: Run, draft: dict[str, Any]
) -> None:
    seen(run, "read_artifact", {"artifact_id": draft["draft_id"]})
    read = {"artifact": draft["draft_id"], "version": 0, "digest": draft["digest"]}
    assert stood_on("read_artifact") == {"read": read}


@pytest.mark.parametrize("name", AT_ONCE)
def test_an_agent_without_the_capability_is_denied_and_not_degraded(
    name: str, run: Run, note: Artifact, draft: dict[str, Any], agent: Agent
) -> None:
    capability = BUILTIN_TOOLS[name].spec.capability.value
    arguments = valid_arguments(name, note, draft)
    Agent.objects.filter(pk=agent.pk).update(
        ceiling=[held for held in agent.ceiling if held != capability]
    )
    told = seen(run, name, arguments)
    assert (told["outcome"], told["reason"]) == ("refused", "permission_denied")
    assert "value" not in told
    assert Artifact.objects.get().head == 1
    assert files() <= {BEFORE}


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_tool_that_breaks_changes_nothing_and_the_turn_goes_on(
    name: str,
    run: Run,
    note: Artifact,
    draft: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = BUILTIN_TOOLS[name]

    def works_and_then_breaks(arguments: dict[str, Any], context: CallContext) -> Any:
        tool.handler(arguments, context)
        raise RuntimeError("at the very end")

    broken = dataclasses.replace(tool, handler=works_and_then_breaks)
    monkeypatch.setattr(catalog, "BUILTIN_TOOLS", MappingProxyType({**BUILTIN_TOOLS, name: broken}))
    told = seen(run, name, valid_arguments(name, note, draft))
    assert told["outcome"] == "raised"
    assert Artifact.objects.get().head == 1
    assert files() <= {BEFORE}
    assert not Run.objects.exclude(pk=run.pk).exists()
    run.refresh_from_db()
    assert run.state == "running"


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_tool_that_overruns_its_time_changes_nothing_and_the_turn_goes_on(
    name: str,
    run: Run,
    note: Artifact,
    draft: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = BUILTIN_TOOLS[name]

    def works_and_then_never_ends(arguments: dict[str, Any], context: CallContext) -> Any:
        result = tool.handler(arguments, context)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")
        return result

    before = seen(run, "read_artifact", valid_arguments("read_artifact", note, {}))
    slow = dataclasses.replace(
        tool,
        spec=dataclasses.replace(tool.spec, timeout_s=0.2),
        handler=works_and_then_never_ends,
    )
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "BUILTIN_TOOLS", MappingProxyType({**BUILTIN_TOOLS, name: slow}))
        run.catalog, run.catalog_digest = catalog.freeze_catalog(catalog.offered_tools(run))
        run.save(update_fields=["catalog", "catalog_digest"])
        told = seen(run, name, valid_arguments(name, note, draft), step=3)
    assert (told["outcome"], told["reason"]) == ("timeout", "timeout")
    assert "value" not in told
    assert Artifact.objects.get().head == 1
    assert files() <= {BEFORE}
    # What was read before stands, and the next call of the turn is made.
    assert projection_of(Call.objects.get(tool="read_artifact", step=2)) == before
    run.refresh_from_db()
    assert run.state == "running"
    assert seen(run, "list_available_agents", {}, step=4)["outcome"] in ("ok", "refused")
