"""An agent runs a program: in the real sandbox, and settled by the real pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import ArtifactVersion
from apps.boundary.pipeline import execute_waiting
from apps.rooms.models import Room, RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.tools.catalog import freeze
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def supervised(settings: Any, daemon: Daemon) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)


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
def run(room: Room, agent: Agent, member: User) -> Iterator[Run]:
    return claimed_run(room, agent, member)


class Ran:
    """One call of run_code that has settled, and what the model was told."""

    steps = 1

    def __init__(self, run: Run, code: str, *targets: str, language: str = "python") -> None:
        Ran.steps += 1
        asked = {"language": language, "code": code, "artifact_targets": list(targets)}
        crossing = crossed(run, "run_code", asked, step=Ran.steps)
        execute_waiting(call_id=crossing.call.pk, executor="test")
        self.call = Call.objects.get(pk=crossing.call.pk)
        self.told: dict[str, Any] = projection_of(self.call) or {}

    @property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.told.get("value") or self.told.get("details") or {}
        return value


def events(room: Room, kind: str) -> list[dict[str, Any]]:
    return list(
        RoomEvent.objects.filter(room=room, kind=kind)
        .order_by("position")
        .values_list("data", flat=True)
    )


def test_a_program_computes_and_its_output_goes_back(run: Run) -> None:
    ran = Ran(run, "print(6 * 7)")
    assert (ran.call.outcome, ran.value["stdout"]) == ("ok", "42\n")
    assert ran.value["files"] == []


def test_a_program_in_bash(run: Run) -> None:
    ran = Ran(run, "echo $((6 * 7)); pwd", language="bash")
    assert (ran.call.outcome, ran.value["stdout"]) == ("ok", "42\n/workspace\n")


def test_the_files_of_a_workspace_stay_for_later_calls(run: Run) -> None:
    Ran(run, "open('kept.txt', 'w').write('seven')")
    later = Ran(run, "import os; print(open('kept.txt').read(), os.listdir())")
    assert later.value["stdout"] == "seven ['kept.txt']\n"


def test_a_declared_file_becomes_a_native_artifact(run: Run, room: Room) -> None:
    ran = Ran(run, "open('rows.csv', 'w').write('a,b\\n1,2\\n')", "rows.csv")
    version = ArtifactVersion.objects.get()
    assert ran.told["artifacts"] == [f"{version.artifact_id}:1"]
    assert (version.artifact.kind, version.artifact.title) == ("file", "rows.csv")
    assert (version.media_type, bytes(version.blob.content)) == ("text/csv", b"a,b\n1,2\n")
    saved = events(room, "artifact.saved")[0]
    assert (saved["call"], saved["target"]) == (str(ran.call.pk), "rows.csv")


def test_an_agent_whose_ceiling_does_not_name_it_neither_sees_nor_runs_it(
    run: Run, agent: Agent
) -> None:
    assert "run_code" in run.catalog["tools"]
    held = [word for word in agent.ceiling if word != "code.run"]
    Agent.objects.filter(pk=agent.pk).update(ceiling=held)
    asked = {"language": "python", "code": "print(1)", "artifact_targets": []}
    refused = crossed(run, "run_code", asked).call
    assert (refused.outcome, refused.reason) == ("refused", "permission_denied")
    run.refresh_from_db()
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
    asked = {"language": "python", "code": "print(1)", "artifact_targets": []}
    refused = crossed(run, "run_code", asked).call
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
