"""An agent's program goes on where the last one left it, and reads through the boundary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.boundary.inner import InnerCalls
from apps.boundary.pipeline import execute_waiting
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval
from apps.rooms.models import Room
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.sandbox.kernel_ends import end_kernel, kernels_to_end
from apps.sandbox.kernels import SILENCE_SECONDS, stop_kernel
from apps.sandbox.models import Kernel
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def supervised(settings: Any, daemon: Daemon) -> Iterator[None]:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    yield
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    for kernel in Kernel.objects.exclude(workspace=None).select_related("workspace"):
        stop_kernel(workspace=kernel.workspace, language=kernel.language)


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
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    """A tool that asks its member, offered to runs that begin after it."""
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    return claimed_run(room, agent, member)


class Cell:
    """One call of run_code in a kernel, as far as a worker brought it."""

    steps = 1

    def __init__(self, run: Run, code: str, *targets: str, **words: Any) -> None:
        Cell.steps += 1
        asked = {"language": "python", "code": code, "artifact_targets": list(targets)}
        waiting = crossed(run, "run_code", {**asked, "kernel": True, **words}, step=Cell.steps)
        execute_waiting(call_id=waiting.call.pk, executor="test", inner=InnerCalls)
        self.call = Call.objects.get(pk=waiting.call.pk)
        self.told: dict[str, Any] = projection_of(self.call) or {}
        self.value: dict[str, Any] = self.told.get("value") or self.told.get("details") or {}


def test_a_cell_finds_what_the_last_one_left_and_its_files_become_artifacts(run: Run) -> None:
    first = Cell(run, "rows = [1, 2]\nprint('made')\nlen(rows)")
    assert (first.call.outcome, first.value["stdout"], first.value["value"]) == (
        "ok",
        "made\n",
        "2",
    )
    second = Cell(run, "open('rows.csv', 'w').write(f'{rows}')\nrows", "rows.csv")
    assert second.value["value"] == "[1, 2]"
    assert bytes(ArtifactVersion.objects.get().blob.content) == b"[1, 2]"
    # Now that file is one of those that are shared, and the kernel goes on all the same.
    third = Cell(run, "rows")
    assert (third.value["value"], third.value.get("kernel")) == ("[1, 2]", None)


def test_without_the_wish_nothing_stays(run: Run) -> None:
    Cell(run, "x = 1", kernel=False)
    assert not Kernel.objects.exists()
    assert Cell(run, "'x' in globals()").value["value"] == "False"


def test_a_cell_that_fails_is_the_callers_failure_and_says_how_to_mend_it(run: Run) -> None:
    Cell(run, "kept = 'before'")
    failed = Cell(run, "{}['absent']")
    assert (failed.call.outcome, failed.call.reason) == ("error", "command_failed")
    assert "KeyError" in failed.told["message"]
    assert "KeyError" in failed.value["repair_instruction"]
    # What stands in memory is what one wants to look at next.
    after = Cell(run, "kept")
    assert (after.value["value"], after.value.get("kernel")) == ("'before'", None)


def test_a_cell_whose_files_have_no_room_is_not_gone_on_with(run: Run) -> None:
    Cell(run, "x = 1\nopen('kept', 'w').write('k')")
    many = "import os\nx = 2\nopen('kept', 'w').write('half')\nos.mkdir('many')\n"
    full = Cell(run, many + "for n in range(2_500): open(f'many/{n}', 'w').close()")
    assert full.call.outcome == "error"
    assert "more than 2,000 files" in full.told["message"]
    after = Cell(run, "('x' in globals(), os.listdir('.') if 'os' in globals() else 0)")
    assert after.value["value"] == "(False, 0)"
    assert after.value["kernel"]
    assert Cell(run, "open('kept').read()").value["value"] == "'k'"


def test_a_cell_reads_through_the_boundary_and_writes_nothing(run: Run) -> None:
    ran = Cell(
        run,
        "names = sorted(tool['name'] for tool in tools.available())\n"
        "agents = tools.call('list_available_agents')\n"
        "try: tools.call('create_artifact', title='t', kind='markdown', body='b')\n"
        "except RuntimeError as refused: said = str(refused)\n"
        "try: tools.call('run_code', language='python', code='1', artifact_targets=[])\n"
        "except RuntimeError as refused: again = str(refused)\n"
        "print(names, 'agents' in agents, said, again)",
    )
    assert ran.call.outcome == "ok"
    assert "run_code" not in ran.value["stdout"].split("]")[0]
    assert "True" in ran.value["stdout"]
    assert ran.value["stdout"].count("only read") == 2
    inner = Call.objects.filter(parent=ran.call).order_by("place")
    assert [(one.tool, one.outcome) for one in inner] == [
        ("list_available_agents", "ok"),
        ("create_artifact", "refused"),
        ("run_code", "refused"),
    ]
    assert not Artifact.objects.exists()


def test_bash_has_no_kernel(run: Run) -> None:
    refused = Cell(run, "echo 1", language="bash")
    assert (refused.call.outcome, refused.call.reason) == ("error", "invalid_arguments")


def test_a_call_whose_kernel_lives_elsewhere_waits_for_that_machine_until_it_is_lost(
    run: Run,
) -> None:
    Cell(run, "x = 1")
    Kernel.objects.update(node="another")
    Cell.steps += 1
    asked = {"language": "python", "code": "'x' in globals()", "artifact_targets": []}
    call = crossed(run, "run_code", {**asked, "kernel": True}, step=Cell.steps).call
    for _ in range(8):
        execute_waiting(call_id=call.pk, executor="test", inner=InnerCalls)
        call.refresh_from_db()
        assert (call.state, call.attempts) == ("waiting", 0)
    kernel = Kernel.objects.get()
    Kernel.objects.update(asked_at=kernel.asked_at.replace(year=2020))
    execute_waiting(call_id=call.pk, executor="test", inner=InnerCalls)
    call.refresh_from_db()
    value = (projection_of(call) or {})["value"]
    assert (call.outcome, value["value"]) == ("ok", "False")
    assert "another machine" in value["kernel"][0]
    assert SILENCE_SECONDS < 60


def test_a_cell_of_node_keeps_its_state_and_awaits_tools(run: Run) -> None:
    first = Cell(run, "state.n = 1; return (await tools.available()).length > 0", language="node")
    assert (first.call.outcome, first.value["value"]) == ("ok", "true")
    assert Cell(run, "return state.n + 1", language="node").value["value"] == "2"


def test_nobody_is_asked_before_the_programs_of_the_run_have_ended(
    letters: Letters, run: Run, member: User, daemon: Daemon
) -> None:
    Cell(run, "x = 1\nopen('kept', 'w').write('k')")
    assert daemon.children()
    Cell.steps += 1
    call = crossed(run, "send_letter", {"to": "anna"}, step=Cell.steps).call
    # It waits for a worker, and there is nothing yet that anybody could say yes to.
    assert (call.state, call.needs_receipt) == ("waiting", False)
    assert not ApprovalRequest.objects.exists()
    assert list(ready_calls(10)) == [call.pk]
    execute_waiting(call_id=call.pk, executor="test", inner=InnerCalls)
    assert ApprovalRequest.objects.get().call_id == call.pk
    assert daemon.quiet()
    # Nothing else happens, however often somebody looks.
    execute_waiting(call_id=call.pk, executor="test", inner=InnerCalls)
    assert ApprovalRequest.objects.count() == 1
    asked = ApprovalRequest.objects.get()
    decide_approval(
        approval_id=asked.pk,
        member=member,
        approve=False,
        arguments_digest=asked.arguments_digest,
    )
    after = Cell(run, "('x' in globals(), open('kept').read())")
    assert after.value["value"] == "(False, 'k')"
    assert "a person was waited for" in after.value["kernel"][0]


def test_a_supervisor_that_is_away_keeps_nobody_from_being_asked(
    letters: Letters, run: Run, settings: Any, tmp_path: Path
) -> None:
    Cell(run, "x = 1")
    there = settings.KAIZEN_SANDBOXD_SOCKET
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody")
    Cell.steps += 1
    call = crossed(run, "send_letter", {"to": "anna"}, step=Cell.steps).call
    execute_waiting(call_id=call.pk, executor="test", inner=InnerCalls)
    assert ApprovalRequest.objects.exists()
    # The row stays to be ended, and is as soon as somebody answers.
    settings.KAIZEN_SANDBOXD_SOCKET = there
    (left,) = kernels_to_end(10)
    end_kernel(kernel_id=left)
    assert list(kernels_to_end(10)) == []
