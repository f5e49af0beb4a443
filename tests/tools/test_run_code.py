"""An agent runs a program: in the real sandbox, and settled by the real pipeline."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.boundary import pipeline
from apps.boundary.pipeline import execute_waiting
from apps.boundary.services import stop_run
from apps.rooms.models import Room
from apps.rooms.previews import open_previews
from apps.runs.models import Call, Run, RunInput
from apps.sandbox.models import WorkspaceFile
from apps.tools import contract
from apps.tools.builtin import run_code_work
from apps.tools.catalog import freeze
from tests.factories.programs import Ran, proposed_program
from tests.factories.rooms import crossed

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("supervised"),
]

NOTHING: dict[str, Any] = {"language": "python", "code": "print(1)", "artifact_targets": []}


# --- who may run what


def test_an_agent_whose_ceiling_does_not_name_it_neither_sees_nor_runs_it(
    run: Run, agent: Agent
) -> None:
    assert "run_code" in run.catalog["tools"]
    held = [word for word in agent.ceiling if word != "code.run"]
    Agent.objects.filter(pk=agent.pk).update(ceiling=held)
    refused = crossed(run, "run_code", NOTHING).call
    assert (refused.outcome, refused.reason) == ("refused", "permission_denied")
    run.agent.refresh_from_db()
    freeze(run)
    assert "run_code" not in run.catalog["tools"]


@pytest.mark.parametrize("missing", ["switch", "sandbox"])
def test_it_is_not_offered_where_the_deployment_has_it_off_or_no_sandbox(
    missing: str, run: Run, settings: Any, tmp_path: Path
) -> None:
    if missing == "switch":
        settings.KAIZEN_FEATURES_OFF = frozenset({"code"})
    else:
        settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody.sock")
    refused = crossed(run, "run_code", NOTHING).call
    assert (refused.outcome, refused.reason) == ("refused", "tool_disabled")
    freeze(run)
    assert "run_code" not in run.catalog["tools"]


def test_artifact_targets_are_required(run: Run) -> None:
    refused = crossed(run, "run_code", {"language": "python", "code": "print(1)"}).call
    assert (refused.outcome, refused.reason) == ("refused", "invalid_arguments")


@pytest.mark.parametrize("name", ["../out.csv", "/etc/x.csv", "a//b.csv", "./a.csv", "a\\b.csv"])
def test_a_target_that_leads_out_of_the_workspace_is_refused_before_anything_runs(
    run: Run, name: str
) -> None:
    ran = Ran(run, "print('ran')", name)
    assert (ran.call.outcome, ran.call.reason) == ("error", "invalid_arguments")
    assert "Nothing was run" in ran.told["message"]


# --- what a program can do


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(6 * 7, os.getcwd())"),
        ("node", "console.log(6 * 7, process.cwd())"),
        ("node", "import os from 'node:os'; console.log(6 * 7, process.cwd())"),
        ("bash", "echo $((6 * 7)) $PWD"),
    ],
    ids=["python", "node", "node module", "bash"],
)
def test_a_program_of_each_language_runs_in_the_workspace(
    run: Run, language: str, code: str
) -> None:
    ran = Ran(run, code, language=language)
    assert (ran.call.outcome, ran.value["stdout"]) == ("ok", "42 /workspace\n")
    assert ran.value["files"] == []


def test_the_files_of_a_workspace_stay_for_later_calls(run: Run) -> None:
    Ran(run, "open('kept.txt', 'w').write('seven'); open('helper.py', 'w').write('x = 7')")
    later = Ran(run, "import helper; print(open('kept.txt').read(), helper.x)")
    assert later.value["stdout"] == "seven 7\n"


@pytest.mark.parametrize("leave", ["exit", "quit"])
def test_what_every_python_program_expects_is_there(run: Run, leave: str) -> None:
    ran = Ran(run, f"print(callable(help), help.__module__ != __name__)\n{leave}(3)")
    assert ran.value["stdout"] == "True True\n"
    assert ran.value["exit_code"] == 3


# --- whose failure it is, and how it is mended


def test_a_traceback_of_the_program_is_its_callers_failure_with_an_instruction(run: Run) -> None:
    ran = Ran(run, "print('so far')\nraise ValueError('no such row')")
    assert (ran.call.outcome, ran.call.reason, ran.call.domain) == (
        "error", "command_failed", "caller",
    )  # fmt: skip
    assert ran.value["exit_code"] == 1
    assert ran.value["stdout"] == "so far\n"
    # The traceback is the program's own: no line of what started it.
    assert ran.value["stderr"].count("File ") == 1
    assert "raise ValueError('no such row')" in ran.value["stderr"]
    assert "ValueError: no such row" in ran.value["repair_instruction"]


def test_a_node_error_is_named_too(run: Run) -> None:
    ran = Ran(run, "null.x", language="node")
    assert "TypeError: Cannot read properties of null" in ran.value["repair_instruction"]


def test_tracebacks_never_cut_the_tool_off(run: Run) -> None:
    for number in range(4):
        Ran(run, f"raise ValueError({number})")
    assert Ran(run, "print('still there')").call.outcome == "ok"


def test_the_same_program_again_is_never_the_repair(run: Run) -> None:
    Ran(run, "raise ValueError(1)")
    again = proposed_program(run, "raise ValueError(1)")
    assert (again.outcome, again.reason) == ("refused", "repeated_failure")


def test_a_program_that_says_permission_denied_is_not_taken_for_ours(run: Run) -> None:
    ran = Ran(run, "raise PermissionError('permission denied: rate limit, token expired')")
    assert (ran.call.reason, ran.call.domain) == ("command_failed", "caller")


def test_a_program_that_runs_out_of_time_is_told_so_and_how_to_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(run_code_work.LIMITS, wall_ms=1_500)
    monkeypatch.setattr(run_code_work, "LIMITS", short)
    ran = Ran(run, "print('begun', flush=True)\nwhile True: pass")
    assert (ran.call.outcome, ran.call.domain) == ("timeout", "caller")
    assert ran.value["stdout"] == "begun\n"
    assert "ran out of time" in ran.value["repair_instruction"]


def test_a_member_who_wanted_no_retries_gets_no_instruction_to_retry(run: Run) -> None:
    RunInput.objects.filter(run=run).update(text="Compute it, and do not retry if it fails.")
    ran = Ran(run, "raise ValueError('x')")
    assert ran.call.reason == "command_failed"
    assert "repair_instruction" not in ran.value


def test_what_a_program_prints_is_bounded_and_holds_no_credential(run: Run) -> None:
    ran = Ran(run, "print('AKIA' + 'A' * 16)\nprint('x' * 50_000)\nprint('the end \\x1b[2J')")
    assert "AKIA" not in str(ran.told)
    assert len(ran.value["stdout"]) < 6_100
    assert ran.value["stdout"].endswith("the end \\x1b[2J\n")


def test_a_sandbox_that_is_away_is_a_dependency_and_nothing_was_run(
    run: Run, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "sandbox_is_there", lambda: True)
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody.sock")
    ran = Ran(run, "print(1)")
    assert (ran.call.reason, ran.call.domain) == ("dependency_unavailable", "dependency")
    assert ran.told["retryable"] is True
    assert "Nothing was run" in ran.told["message"]


# --- stop, crash


def test_stop_ends_the_program_and_keeps_nothing(run: Run, member: User, room: Room) -> None:
    ended: list[Ran] = []
    code = (
        "open('half.txt', 'w').write('half'); print('begun', flush=True)\n"
        "import time; time.sleep(60)"
    )
    thread = threading.Thread(target=lambda: ended.append(_elsewhere(run, code)))
    thread.start()
    # Everyone in the room sees what it writes while it runs.
    _until(lambda: "begun\n" in [one["text"] for one in open_previews(str(room.pk))])
    stop_run(run_id=run.pk, member=member)
    thread.join(30)
    [ran] = ended
    assert (ran.call.outcome, ran.call.reason) == ("stopped", "cancelled")
    assert not WorkspaceFile.objects.exists()


def test_a_worker_that_dies_leaves_nothing_and_the_call_may_be_made_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = proposed_program(run, "open('a.csv', 'w').write('a\\n')", "a.csv")

    def dies(**words: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(pipeline, "settle_executed", dies)
        with pytest.raises(KeyboardInterrupt):
            execute_waiting(call_id=waiting.pk, executor="dead")
    Call.objects.filter(pk=waiting.pk).update(executor_expires_at="2020-01-01T00:00Z")
    execute_waiting(call_id=waiting.pk, executor="alive")
    waiting.refresh_from_db()
    assert (waiting.outcome, waiting.reason) == ("abandoned", "interrupted")
    assert not WorkspaceFile.objects.exists()
    assert Ran(run, "open('a.csv', 'w').write('a\\n')", "a.csv").call.outcome == "ok"


def _elsewhere(run: Run, code: str) -> Ran:
    try:
        return Ran(run, code)
    finally:
        connection.close()


def _until(held: Any, patience: float = 20.0) -> None:
    until = time.monotonic() + patience
    while not held():
        assert time.monotonic() < until
        time.sleep(0.05)
