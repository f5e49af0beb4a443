"""A session starts once for a run, serves its calls, and leaves nothing, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.core.queue import queues
from apps.runs.models import Run
from apps.sandbox.errors import SessionOver
from apps.sandbox.models import ToolSession
from apps.sandbox.session_ends import (
    CleanupFailed,
    close_left_behind,
    close_sessions,
    left_behind,
)
from apps.sandbox.session_program import Command, SessionPlan
from apps.sandbox.sessions import call_in_session
from apps.sandbox.spec import Limits, SandboxResult, SandboxSpec
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]
Starter = Callable[..., Daemon]

START = """
import json, os, socket, sys, time
place = os.environ["KAIZEN_SESSION_DIR"]
door = socket.socket(socket.AF_UNIX)
door.bind(place + "/door")
door.listen()
print("ready to serve", flush=True)
print("x" * 200_000, flush=True)
count = 0
while True:
    guest, _ = door.accept()
    word = guest.recv(100).decode()
    count += 1
    if word == "end":
        sys.exit(7)
    guest.sendall(f"{word} {count}".encode())
    guest.close()
"""
CALL = """
import json, os, socket, sys
asked = json.load(sys.stdin)
door = socket.socket(socket.AF_UNIX)
door.connect(os.environ["KAIZEN_SESSION_DIR"] + "/door")
door.sendall(asked["say"].encode())
open("/workspace/output/note.txt", "w").write(asked["say"])
left = sorted(os.listdir("/tmp/call"))
open("/tmp/call/mine", "w").close()
print(json.dumps([door.recv(100).decode(), left]))
"""
STOP = """
import os, sys
sys.exit(int(os.environ.get("STOP_CODE", "0")))
"""


def python(source: str, stdin: Any = None) -> Command:
    words = ("python", "-I", "-S", "-c", source)
    return Command(words, "/workspace", json.dumps(stdin).encode())


def plan(start: str = START, stop: str = STOP, name: str = "counter") -> SessionPlan:
    return SessionPlan(
        name=name,
        start=python(start),
        stop=python(stop),
        base=SandboxSpec(argv=("true",), limits=Limits(cpu_ms=20_000)),
        variables=("KAIZEN_SESSION_DIR",),
        places=("/workspace/output", "/tmp/call"),
    )


@pytest.fixture
def run() -> Run:
    member = make_member()
    agent = make_agent(member)
    return claimed_run(make_room(member, agent), agent, member)


@pytest.fixture
def say(run: Run, daemon: Daemon) -> Any:
    def call(word: str, of: SessionPlan | None = None, **options: Any) -> SandboxResult:
        return call_in_session(
            run_id=run.pk,
            plan=of or plan(),
            command=python(CALL, {"say": word}),
            path=daemon.socket,
            **{"deadline_s": 30.0, **options},
        )

    yield call
    close_sessions(run_id=run.pk, path=daemon.socket)


def test_a_session_starts_once_and_serves_the_calls_of_its_run(say: Any, run: Run) -> None:
    first, second = say("hello"), say("again")
    assert (first.reason, json.loads(first.stdout)) == ("ok", ["hello 1", []])
    # Its program remembered; each call had folders of its own.
    assert json.loads(second.stdout) == ["again 2", []]
    assert [(one.name, one.content) for one in second.workspace.changed] == [
        ("output/note.txt", b"again")
    ]
    assert ToolSession.objects.filter(run=run).count() == 1


def test_no_bound_call_means_no_process_and_no_record(run: Run, daemon: Daemon) -> None:
    close_sessions(run_id=run.pk, path=daemon.socket)
    assert not ToolSession.objects.exists()


def test_a_call_fails_alone(say: Any) -> None:
    failed = say("x", plan(), deadline_s=30.0)
    assert failed.reason == "ok"
    result = say("x" * 10)
    assert json.loads(result.stdout)[0].endswith(" 2")


def test_a_call_that_takes_too_long_is_ended_alone(say: Any, run: Run, daemon: Daemon) -> None:
    slow = python("import time; time.sleep(60)")
    say("first")
    result = call_in_session(
        run_id=run.pk, plan=plan(), command=slow, deadline_s=1.0, path=daemon.socket
    )
    assert result.reason == "wall_timeout"
    stopped = call_in_session(
        run_id=run.pk, plan=plan(), command=slow, cancelled=lambda: True, path=daemon.socket
    )
    assert stopped.reason == "cancelled"
    assert json.loads(say("still there").stdout)[0] == "still there 2"


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("import sys; sys.exit(3)", "before it was ready"),
        ("print('no line', end='', flush=True)", "before it was ready"),
        ("print('x' * 100_000, end='', flush=True)\nimport time; time.sleep(60)", "short line"),
    ],
)
def test_a_failed_start_is_the_error_of_its_call_and_of_later_ones(
    say: Any, run: Run, start: str, says: str
) -> None:
    for _ in range(2):
        with pytest.raises(SessionOver, match=says):
            say("hello", plan(start), deadline_s=30.0)
    assert ToolSession.objects.get(run=run).state == "ended"


def holding_process(daemon: Daemon, signal_number: int, word: bytes) -> int:
    """Return the process below the supervisor with a word in its line that holds a signal back."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        known = daemon.children()
        for pid in known:
            with suppress(FileNotFoundError, ProcessLookupError):
                place = Path(f"/proc/{pid}")
                known += map(int, (place / f"task/{pid}/children").read_text().split())
                blocked = re.search(r"SigBlk:\s*(\w+)", (place / "status").read_text())
                holds = blocked is not None and int(blocked[1], 16) >> (signal_number - 1) & 1
                if holds and word in (place / "cmdline").read_bytes():
                    return pid
        time.sleep(0.02)
    raise AssertionError("Nobody holds the signal back.")


def test_a_start_that_takes_longer_than_a_call_goes_on_for_the_next_one(
    say: Any, daemon: Daemon
) -> None:
    # Half of its line comes soon, and none of the rest before we say so.
    slow = plan(
        "import signal, time\n"
        "print('al', end='', flush=True)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "while signal.SIGUSR1 not in signal.sigpending(): time.sleep(0.02)\n" + START
    )
    late = say("hello", slow, deadline_s=1.0)
    assert (late.reason, "getting ready" in late.detail) == ("wall_timeout", True)
    stopped = say("hello", slow, cancelled=lambda: True)
    assert stopped.reason == "cancelled"
    os.kill(holding_process(daemon, signal.SIGUSR1, b"sigpending"), signal.SIGUSR1)
    # Nothing of the two calls has happened, and the third finds the program that they began.
    assert json.loads(say("hello", slow).stdout) == ["hello 1", []]


def test_a_session_that_ends_cancels_its_call_and_stays_ended(say: Any, run: Run) -> None:
    say("hello")
    # The call that ends it may still have been answered; none after it is.
    with suppress(SessionOver):
        say("end")
    for _ in range(2):
        with pytest.raises(SessionOver, match="The session ended"):
            say("end")
    assert "exit code 7" in ToolSession.objects.get(run=run).sentence


def test_a_program_that_kills_its_host_ends_its_session_alone(
    say: Any, run: Run, daemon: Daemon
) -> None:
    say("hello")
    with pytest.raises(SessionOver):
        call_in_session(
            run_id=run.pk,
            plan=plan(),
            command=python("import os; os.kill(os.getppid(), 9)"),
            path=daemon.socket,
        )
    with pytest.raises(SessionOver):
        say("hello")


def test_the_end_of_a_run_stops_its_session_and_leaves_no_process(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    call_in_session(
        run_id=run.pk, plan=plan(), command=python(CALL, {"say": "x"}), path=daemon.socket
    )
    assert daemon.children()
    close_sessions(run_id=run.pk, path=daemon.socket)
    assert not daemon.children()
    assert ToolSession.objects.get(run=run).state == "closed"
    with pytest.raises(SessionOver):
        call_in_session(run_id=run.pk, plan=plan(), command=python(CALL), path=daemon.socket)


@pytest.mark.parametrize(
    ("stop", "says"),
    [
        ("import sys; sys.exit(4)", "exit code 4"),
        ("import os; os.kill(os.getppid(), 9)", "without its stop command"),
    ],
)
def test_a_stop_that_fails_replaces_the_result(
    run: Run, daemon: Daemon, stop: str, says: str
) -> None:
    call_in_session(
        run_id=run.pk, plan=plan(stop=stop), command=python(CALL, {"say": "x"}), path=daemon.socket
    )
    with pytest.raises(CleanupFailed, match=says):
        close_sessions(run_id=run.pk, path=daemon.socket)
    assert ToolSession.objects.get(run=run).state == "failed"


def test_what_a_dead_worker_left_is_ended_by_the_sweep_and_before_the_next_start(
    run: Run, daemon: Daemon
) -> None:
    call_in_session(
        run_id=run.pk, plan=plan(), command=python(CALL, {"say": "x"}), path=daemon.socket
    )
    Run.objects.filter(pk=run.pk).update(state="finished", finished_at=timezone.now())
    session = ToolSession.objects.get(run=run)
    assert list(left_behind(10)) == [session.pk]
    assert "tool_sessions" in {queue.name for queue in queues()}
    other = claimed_run(make_room(run.member, run.agent), run.agent, run.member)
    call_in_session(
        run_id=other.pk, plan=plan(), command=python(CALL, {"say": "x"}), path=daemon.socket
    )
    session.refresh_from_db()
    assert session.state == "closed"
    assert not list(left_behind(10))
    close_left_behind(session_id=session.pk)
    close_sessions(run_id=other.pk, path=daemon.socket)


def test_a_sweep_that_fails_refuses_the_new_session_and_keeps_the_record(
    run: Run, daemon: Daemon
) -> None:
    broken = plan(stop="import sys; sys.exit(4)")
    call_in_session(
        run_id=run.pk, plan=broken, command=python(CALL, {"say": "x"}), path=daemon.socket
    )
    Run.objects.filter(pk=run.pk).update(state="finished", finished_at=timezone.now())
    other = claimed_run(make_room(run.member, run.agent), run.agent, run.member)
    with pytest.raises(CleanupFailed):
        call_in_session(run_id=other.pk, plan=plan(), command=python(CALL), path=daemon.socket)
    assert not ToolSession.objects.filter(run=other).exists()
    assert ToolSession.objects.get(run=run).state == "failed"


def test_a_supervisor_that_dies_takes_its_sessions_along(run: Run, another_daemon: Starter) -> None:
    daemon = another_daemon()
    command = python(CALL, {"say": "x"})
    call_in_session(run_id=run.pk, plan=plan(), command=command, path=daemon.socket)
    daemon.process.kill()
    daemon.process.wait()
    daemon.restart()
    for _ in range(2):
        with pytest.raises(SessionOver, match="gone"):
            call_in_session(run_id=run.pk, plan=plan(), command=command, path=daemon.socket)
    close_sessions(run_id=run.pk, path=daemon.socket)
