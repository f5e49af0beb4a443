"""The doctor says in sentences whether code can run confined, and exits accordingly."""

import json
import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.sandbox.client import NOT_ALLOWED
from apps.sandbox.health import sandbox_part
from apps.sandbox.management.commands.sandbox import Command
from apps.sandbox.selectors import mend_of
from apps.sandbox.spec import ProbeReport, ProbeStatus
from tests.sandboxd.daemon import Daemon, as_root


def test_it_says_that_the_supervisor_is_not_running(settings: Any, tmp_path: Path) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "s.sock")
    said = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command(Command(), "doctor", stdout=said)
    assert ended.value.code == 1
    assert "NOT READY" in said.getvalue()
    assert "not running" in said.getvalue()
    assert "mend: Start it with `make up`" in said.getvalue()


def test_whoever_named_no_supervisor_is_told_to_name_one(settings: Any) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = ""
    said = StringIO()
    with pytest.raises(SystemExit):
        call_command(Command(), "doctor", stdout=said)
    assert "mend: Name the supervisor's socket in KAIZEN_SANDBOXD_SOCKET." in said.getvalue()


@pytest.mark.parametrize("status", sorted(set(ProbeStatus) - {ProbeStatus.READY}))
def test_every_finding_comes_with_what_mends_it(status: ProbeStatus) -> None:
    mend = mend_of(ProbeReport(status, "Something is wrong."))
    assert mend.endswith(".")
    assert "\n" not in mend


def test_a_user_that_may_not_ask_is_told_who_lets_them() -> None:
    for status in (ProbeStatus.NOT_RUNNING, ProbeStatus.FAILED):
        assert "--allow-uid" in mend_of(ProbeReport(status, NOT_ALLOWED))
    assert mend_of(ProbeReport(ProbeStatus.READY, "Sandboxes run.")) == ""


@pytest.mark.sandbox
def test_it_tells_what_is_in_force_and_who_enforces_each_limit(
    settings: Any, daemon: Daemon
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    said = StringIO()
    call_command(Command(), "doctor", stdout=said)
    assert said.getvalue().startswith("ready: Sandboxes run Python 3.")
    lines = said.getvalue().splitlines()
    told = [line.removeprefix("  in force: ") for line in lines if "  in force: " in line]
    subjects = [line.partition(":")[0] for line in told]
    assert subjects == [
        "driver", "identity", "walls", "system calls", "control groups", "memory", "processes",
        "processor time", "wall clock and output", "disk", "runtime office", "runtime node",
        "runtime pi", "network", "start", "syntax",
    ]  # fmt: skip
    assert "asked from: node " in said.getvalue()
    identity = next(line for line in told if line.startswith("identity"))
    assert ("60700 to 60731" if as_root() else f"user id {os.geteuid()}") in identity


@pytest.mark.sandbox
def test_data_and_readiness_say_the_same(settings: Any, daemon: Daemon) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    as_json = StringIO()
    call_command(Command(), "doctor", "--json", stdout=as_json)
    told = json.loads(as_json.getvalue())
    assert told["ready"]
    assert set(told["runtimes"]) == {"office", "node", "pi"}
    shown = sandbox_part().story
    assert shown.startswith(told["sentence"])
    for line in (*told["in_force"], *told["missing"]):
        assert line in shown or line.startswith("syntax")


@pytest.mark.sandbox
def test_what_is_missing_comes_with_what_mends_it(
    settings: Any, another_daemon: Callable[..., Daemon], daemon: Daemon
) -> None:
    bare = another_daemon("--runtime", str(daemon.home / "runtime" / "python"))
    settings.KAIZEN_SANDBOXD_SOCKET = str(bare.socket)
    said = StringIO()
    call_command(Command(), "doctor", stdout=said)
    for name in ("office", "node", "pi"):
        assert f"missing: No {name} runtime" in said.getvalue()
    assert "run `make venv`" in said.getvalue()


@pytest.mark.sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="Only root has a range of user ids to give.")
def test_a_range_with_somebody_in_it_is_refused(
    settings: Any, another_daemon: Callable[..., Daemon]
) -> None:
    taken = another_daemon("--uid-range", "65500:35")  # nobody is 65534
    settings.KAIZEN_SANDBOXD_SOCKET = str(taken.socket)
    said = StringIO()
    with pytest.raises(SystemExit):
        call_command(Command(), "doctor", stdout=said)
    assert "belong to accounts of this machine (nobody)" in said.getvalue()
    assert "mend: Start the supervisor with a --uid-range of ids" in said.getvalue()
