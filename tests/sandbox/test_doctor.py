"""The doctor says in sentences whether code can run confined, and exits accordingly."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.sandbox.management.commands.sandbox import Command
from apps.sandbox.selectors import sandbox_state
from tests.sandboxd.daemon import Daemon


def test_it_says_that_the_supervisor_is_not_running(settings: Any, tmp_path: Path) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "s.sock")
    said = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command(Command(), "doctor", stdout=said)
    assert ended.value.code == 1
    assert "NOT READY" in said.getvalue()
    assert "not running" in said.getvalue()
    assert "make up" in said.getvalue()


@pytest.mark.sandbox
def test_it_tells_what_is_in_force(settings: Any, daemon: Daemon) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    said = StringIO()
    call_command(Command(), "doctor", stdout=said)
    assert said.getvalue().startswith("ready: Sandboxes run Python 3.")
    assert "in force: own user, pid, network" in said.getvalue()
    state = sandbox_state()
    assert state.ready
    as_json = StringIO()
    call_command(Command(), "doctor", "--json", stdout=as_json)
    assert json.loads(as_json.getvalue())["in_force"] == list(state.in_force)
