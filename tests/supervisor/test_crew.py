"""Children that die, linger or will not stop, played by small programs."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaizen.supervisor.children import RESTARTS, ChildSpec, Crew
from kaizen.supervisor.errors import CannotStart, GaveUp
from kaizen.supervisor.processes import is_same, started_at
from tests.stack import survivors

CLONE = Path(__file__).resolve().parent.parent.parent
SLEEP = "import time; time.sleep(60)"
STUBBORN = f"""
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(1, flush=True)
{SLEEP}
"""
PARENT = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {SLEEP!r}]).pid, flush=True)
{SLEEP}
"""


class Told:
    """Everything that the crew told the console."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.changes = 0

    def say(self, message: str) -> None:
        self.words.append(message)

    def change(self) -> None:
        self.changes += 1


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def crew(told: Told) -> Iterator[Crew]:
    crew = Crew(say=told.say, changed=told.change)
    yield crew
    crew.stop({0: 1.0, 1: 1.0, 2: 1.0})


@pytest.fixture
def program(tmp_path: Path):
    def build(code: str, name: str = "child", rank: int = 2) -> ChildSpec:
        return ChildSpec(
            name=name,
            argv=[sys.executable, "-c", code],
            env={},
            log=tmp_path / f"{name}.log",
            rank=rank,
        )

    return build


def test_a_child_gets_exactly_its_own_environment(crew: Crew, program, tmp_path: Path) -> None:
    child = crew.start(program("import os; print(sorted(os.environ))"))
    child.process.wait(10)
    assert "DATABASE_URL" not in (tmp_path / "child.log").read_text()
    assert "PATH" not in (tmp_path / "child.log").read_text()


def test_a_child_that_keeps_dying_stops_everything_with_its_last_words(
    crew: Crew, program, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaizen.supervisor.children._SHORT_LIFE", 0.0)
    child = crew.start(program("raise SystemExit('no more of this')"))
    with pytest.raises(GaveUp, match="no more of this"):
        look_for(crew, seconds=30)
    assert len(child.restarts) == RESTARTS
    assert len(told.words) == RESTARTS


def test_deaths_of_long_ago_are_forgiven(crew: Crew, program) -> None:
    child = crew.start(program(SLEEP))
    child.restarts.extend([time.monotonic() - 61] * RESTARTS)
    child.process.kill()
    child.process.wait()
    child.started -= 10
    crew.look()
    assert child.process.poll() is None
    assert len(child.restarts) == 1


def test_a_child_that_dies_at_once_is_given_a_moment(crew: Crew, program) -> None:
    child = crew.start(program("raise SystemExit(3)"))
    child.process.wait(10)
    dead = child.process
    crew.look()
    assert child.process is dead
    assert child.not_before is not None


def test_a_death_during_the_start_is_told_with_its_last_words(crew: Crew, program) -> None:
    crew.start(program("raise SystemExit('a reason')")).process.wait(10)
    with pytest.raises(CannotStart, match=r"(?s)exit code 1.*a reason"):
        crew.demand_alive()


def test_a_failed_step_of_the_start_is_told(crew: Crew, program) -> None:
    with pytest.raises(CannotStart, match=r"(?s)step failed .*a reason"):
        crew.run(program("raise SystemExit('a reason')", "step"), lambda: time.sleep(0.01))


def test_a_missing_program_is_a_sentence(crew: Crew, program, tmp_path: Path) -> None:
    spec = ChildSpec("ghost", [str(tmp_path / "none")], {}, tmp_path / "ghost.log")
    with pytest.raises(CannotStart, match=r"ghost cannot start: No such file"):
        crew.start(spec)


def test_a_stop_goes_from_the_last_rank_to_the_first(crew: Crew, program, tmp_path: Path) -> None:
    note = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        "    open({path!r}, 'a').write({name!r} + ' ')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    order = tmp_path / "order"
    for rank, name in enumerate(("store", "sandbox", "web")):
        crew.start(program(note.format(path=str(order), name=name), name, rank))
    for name in ("store", "sandbox", "web"):
        wait_for_output(tmp_path / f"{name}.log")
    crew.stop({0: 5.0, 1: 5.0, 2: 5.0})
    assert order.read_text().split() == ["web", "sandbox", "store"]


def test_a_child_that_will_not_stop_is_killed(
    crew: Crew, program, told: Told, tmp_path: Path
) -> None:
    child = crew.start(program(STUBBORN))
    wait_for_output(tmp_path / "child.log")
    crew.stop({2: 0.2})
    assert child.process.returncode == -signal.SIGKILL
    assert told.words == ["child did not stop in time; killing it."]


def test_what_a_child_started_ends_with_it(crew: Crew, program, tmp_path: Path) -> None:
    crew.start(program(PARENT))
    grandchild = int(wait_for_output(tmp_path / "child.log"))
    mark = started_at(grandchild)
    crew.stop({2: 2.0})
    assert survivors({grandchild: mark}, patience=3) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children about it")
def test_children_do_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from kaizen.supervisor.children import ChildSpec, Crew\n"
        "crew = Crew(say=print, changed=lambda: None)\n"
        f"spec = ChildSpec('child', [sys.executable, '-c', {SLEEP!r}], {{}}, Path(sys.argv[1]))\n"
        "print(crew.start(spec).process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")], stdout=subprocess.PIPE, cwd=CLONE
    ) as supervisor:
        assert supervisor.stdout is not None
        child = int(supervisor.stdout.readline())
        mark = started_at(child)
        assert is_same(child, mark)
        supervisor.kill()
    assert survivors({child: mark}, patience=3) == []


def look_for(crew: Crew, *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        crew.look()
        time.sleep(0.01)


def wait_for_output(log: Path) -> str:
    deadline = time.monotonic() + 10
    while not (log.exists() and log.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{log} stays empty"
        time.sleep(0.01)
    return log.read_text().strip()
