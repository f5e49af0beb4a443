"""The whole supervisor: real processes, killed and stopped in every way that matters."""

import os
import signal
import stat
import time
from pathlib import Path

import httpx
import psycopg
import pytest
import redis

from kaizen.supervisor.processes import started_at
from tests.stack import RunningStack, survivors

pytestmark = pytest.mark.workers

EVERYONE = {"postgres", "valkey", "sandboxd", "worker-turns", "worker-calls", "beat", "web"}
if len(os.sched_getaffinity(0)) > 1:
    EVERYONE.add("web-2")


@pytest.fixture
def stack(mortal_stack: RunningStack) -> RunningStack:
    if not mortal_stack.runs:
        mortal_stack.start()
    return mortal_stack


def remember(stack: RunningStack, word: str) -> None:
    with psycopg.connect(stack.environment["DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS supervisor_probe (word text)")
        connection.execute("INSERT INTO supervisor_probe VALUES (%s)", [word])


def remembered(stack: RunningStack) -> set[str]:
    with psycopg.connect(stack.environment["DATABASE_URL"]) as connection:
        return {row[0] for row in connection.execute("SELECT word FROM supervisor_probe")}


def test_everything_runs_and_the_console_says_where(stack: RunningStack) -> None:
    assert set(stack.pids()) == EVERYONE
    assert all(stack.marks().values())
    assert f"Kaizen is ready at {stack.url}\n" in stack.said()
    assert httpx.get(f"{stack.url}/healthz").status_code == 200


def test_what_holds_a_secret_is_private(stack: RunningStack) -> None:
    for name in ("secrets.json", "environment.json", "running.json"):
        mode = (stack.var / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600, name


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_no_child_knows_more_than_it_needs(stack: RunningStack) -> None:
    def environ(name: str) -> set[str]:
        content = Path(f"/proc/{stack.pids()[name]}/environ").read_bytes()
        return {line.split(b"=")[0].decode() for line in content.split(b"\0") if line}

    assert environ("sandboxd") == set()
    assert environ("postgres") == {"LC_ALL", "TZ", "PATH"}
    # Valkey writes its title over its environment.
    assert environ("valkey") <= {"LC_ALL", "TZ", "PATH"}
    assert "DATABASE_URL" in environ("web")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_the_stores_do_not_run_as_root(stack: RunningStack) -> None:
    for name in ("postgres", "valkey"):
        assert Path(f"/proc/{stack.pids()[name]}").stat().st_uid != 0, name


def test_a_second_up_says_that_one_is_running_and_where(stack: RunningStack) -> None:
    marks = stack.marks()
    second = stack.up(stdout=-1)
    words = second.communicate(timeout=20)[0].decode()
    assert second.returncode == 1
    assert f"already running at {stack.url}" in words
    assert len(survivors(marks, patience=0)) == len(marks)


@pytest.mark.parametrize("name", sorted(EVERYONE))
def test_a_dead_child_is_started_again(stack: RunningStack, name: str) -> None:
    remember(stack, name)
    before = len(stack.said())
    url, database = stack.url, stack.environment["DATABASE_URL"]
    stack.wait_for_new(name, stack.kill(name))
    deadline = time.monotonic() + 20
    while True:
        try:
            assert httpx.get(f"{stack.url}/healthz", timeout=5).status_code == 200
            assert name in remembered(stack)
            break
        except (httpx.HTTPError, psycopg.OperationalError):
            assert time.monotonic() < deadline, stack.said()
            time.sleep(0.1)
    assert (stack.url, stack.environment["DATABASE_URL"]) == (url, database)
    assert f"{name} ended (by SIGKILL); starting it again." in stack.said()[before:]


def test_both_workers_listen_again_after_the_broker_died(stack: RunningStack) -> None:
    # They may just have been started themselves.
    both_listen(stack)
    stack.wait_for_new("valkey", stack.kill("valkey"))
    both_listen(stack)


def both_listen(stack: RunningStack) -> None:
    deadline = time.monotonic() + 40
    while listeners(stack) < 2:
        assert time.monotonic() < deadline, "the workers did not come back to the broker"
        time.sleep(0.1)


def listeners(stack: RunningStack) -> int:
    with redis.Redis.from_url(stack.environment["REDIS_URL"]) as client:
        try:
            return sum(entry["cmd"] == "brpop" for entry in client.client_list())
        except redis.ConnectionError:
            return 0


def test_a_killed_supervisor_leaves_nothing_and_the_next_start_recovers(
    stack: RunningStack,
) -> None:
    remember(stack, "before the kill")
    url, marks = stack.url, stack.marks()
    stack.kill_supervisor()
    assert survivors(marks, patience=8) == []
    # As after a restart of a container: the number in the file belongs to someone else today.
    data = next(stack.var.rglob("PG_VERSION")).parent
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n0\n5432\n\n127.0.0.1\n")
    stack.start()
    assert stack.url == url
    assert "before the kill" in remembered(stack)


def test_the_next_start_need_not_wait_for_the_dead(stack: RunningStack) -> None:
    stack.kill_supervisor()
    stack.start()
    assert httpx.get(f"{stack.url}/healthz").status_code == 200


def test_a_stop_leaves_no_process_within_fifteen_seconds(stack: RunningStack) -> None:
    marks = stack.marks()
    assert stack.stop() < 15
    assert survivors(marks, patience=0) == []
    assert stack.running == {}
    assert started_at(os.getpid()) is not None


def test_a_stop_during_the_start_leaves_nothing(mortal_stack: RunningStack) -> None:
    if mortal_stack.runs:
        mortal_stack.stop()
    process = mortal_stack.launch()
    deadline = time.monotonic() + 20
    while "postgres" not in mortal_stack.running.get("children", {}):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    marks = mortal_stack.marks()
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 0
    assert survivors(marks, patience=0) == []
    mortal_stack.start()
    assert httpx.get(f"{mortal_stack.url}/healthz").status_code == 200
