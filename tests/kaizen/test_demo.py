"""The demonstration's command: what it says where there is nothing to tell the story to."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from apps.web.demo.command import NOT_RUNNING, main
from kaizen.supervisor.state import CLONE


def test_it_speaks_as_anybody_would_and_loads_no_app() -> None:
    program = "import sys, apps.web.demo.command; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=CLONE, check=False).returncode == 0


def test_without_a_running_kaizen_it_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], running=tmp_path / "running.json") == 1
    assert capsys.readouterr().err == f"{NOT_RUNNING}\n"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"ready": False}, "Kaizen is still starting. Try again in a moment."),
        ({"ready": True, "url": "", "sign_ins": []}, "The sign-ins of ines, mara, tomas are not"),
    ],
)
def test_what_is_not_ready_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: object, words: str
) -> None:
    running = tmp_path / "running.json"
    running.write_text(json.dumps(told))
    assert main(["--running", str(running)], running=tmp_path) == 1
    assert words in capsys.readouterr().err


def test_a_kaizen_that_does_not_answer_is_one_honest_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = tmp_path / "running.json"
    sign_ins = [{"username": name, "password": "secret"} for name in ("ines", "mara", "tomas")]
    # Nobody listens on the port that the system keeps for nobody.
    running.write_text(
        json.dumps({"ready": True, "url": "http://127.0.0.1:1", "sign_ins": sign_ins})
    )
    assert main([], running=running) == 1
    assert capsys.readouterr().err == (
        "  The story stops here: Kaizen did not answer (ConnectError).\n"
    )
