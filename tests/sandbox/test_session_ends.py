"""A session ends with its run, on its own machine, and whoever dies in between leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.runs.models import Run
from apps.sandbox.errors import SandboxUnavailable, SessionOver
from apps.sandbox.leases import this_node
from apps.sandbox.models import ToolSession
from apps.sandbox.session_ends import (
    ENDING_FOR,
    LOST_AFTER,
    CleanupFailed,
    ask_to_close,
    close_left_behind,
    close_sessions,
    failure_of,
    left_behind,
    place_of,
)
from apps.sandbox.session_program import Asking, SessionPlan, open_session
from apps.sandbox.sessions import TERMS, OwnSession, call_in_session, session_home
from apps.sandbox.spec import SandboxResult
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room
from tests.sandbox.processes import another_process
from tests.sandbox.test_sessions import CALL, plan, python
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]
Starter = Callable[..., Daemon]

# What another worker does: it says where it is, and waits to be killed.
WORKER = """
import pathlib, uuid
from apps.sandbox.session_ends import close_sessions
from apps.sandbox.sessions import OwnSession, call_in_session
from apps.sandbox.session_program import Asking
from tests.sandbox.test_sessions import CALL, plan, python
path = pathlib.Path({path!r})
run = uuid.UUID({run!r})
say = python(CALL, {{"say": "x"}})
slow = python("print('inside', flush=True); import time; time.sleep(60)")
def told(*_):
    print("here", flush=True)
"""


@pytest.fixture
def run() -> Run:
    member = make_member()
    agent = make_agent(member)
    return claimed_run(make_room(member, agent), agent, member)


def begun(run: Run, daemon: Daemon, of: SessionPlan | None = None) -> SandboxResult:
    return call_in_session(
        run_id=run.pk, plan=of or plan(), command=python(CALL, {"say": "x"}), path=daemon.socket
    )


def killed_at(step: str, run: Run, daemon: Daemon) -> None:
    """Let another worker get as far as it says, and kill it there."""
    begin = WORKER.format(path=str(daemon.socket), run=str(run.pk))
    with another_process(begin + step) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "here\n"
        worker.kill()


def test_several_sessions_of_a_run_end_and_one_that_fails_is_told(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    begun(run, daemon, plan(name="one"))
    begun(run, daemon, plan(name="two", stop="import sys; sys.exit(4)"))
    with pytest.raises(CleanupFailed, match="exit code 4"):
        close_sessions(run_id=run.pk, path=daemon.socket)
    assert daemon.quiet()
    states = ToolSession.objects.order_by("name").values_list("state", flat=True)
    assert list(states) == ["closed", "failed"]
    # It stays said until the run has its end.
    with pytest.raises(CleanupFailed, match="exit code 4"):
        close_sessions(run_id=run.pk, path=daemon.socket)


def test_a_session_that_was_ended_for_its_run_is_told_once_and_starts_afresh(
    run: Run, daemon: Daemon
) -> None:
    begun(run, daemon)
    close_sessions(run_id=run.pk, why="A person was asked.", path=daemon.socket)
    with pytest.raises(SessionOver, match=r"A person was asked\. The next call starts a fresh one"):
        begun(run, daemon)
    assert begun(run, daemon).stdout.startswith(b'["x 1"')
    close_sessions(run_id=run.pk, path=daemon.socket)


def test_a_session_of_another_machine_is_neither_used_nor_touched_until_that_is_lost(
    run: Run, daemon: Daemon
) -> None:
    begun(run, daemon)
    ToolSession.objects.update(node="another")
    with pytest.raises(SandboxUnavailable, match=r"another machine\. Try again") as refused:
        begun(run, daemon)
    assert not isinstance(refused.value, SessionOver)
    name = plan().name
    assert session_home(run_id=run.pk, name=name) == "another"
    assert ToolSession.objects.get().state == "open"
    # Nobody answers there for half a minute: then it is over, and stays so.
    ToolSession.objects.update(asked_at=timezone.now() - timedelta(minutes=1))
    assert session_home(run_id=run.pk, name=name) == ""
    for _ in range(2):
        with pytest.raises(SessionOver, match="not there any more"):
            begun(run, daemon)
    ToolSession.objects.update(node=this_node(), state="open")
    assert session_home(run_id=run.pk, name=name) == ""
    assert ToolSession.objects.get().asked_at is None
    close_sessions(run_id=run.pk, path=daemon.socket)


def test_the_end_of_a_session_is_left_to_its_own_machine(run: Run, another_daemon: Starter) -> None:
    daemon = another_daemon()
    begun(run, daemon)
    ToolSession.objects.update(node="another")
    ask_to_close(run_id=run.pk)
    session = ToolSession.objects.get()
    close_left_behind(session_id=session.pk, path=daemon.socket)
    assert daemon.children()
    assert ToolSession.objects.get().state == "open"
    # It has been idle for longer than it may be, wherever it was.
    ToolSession.objects.update(asked_at=timezone.now() - LOST_AFTER - timedelta(minutes=1))
    close_left_behind(session_id=session.pk, path=daemon.socket)
    assert ToolSession.objects.get().state == "failed"
    assert "did not answer" in failure_of(run.pk)
    # The machine was there after all.
    ToolSession.objects.update(node=this_node(), state="open")
    close_left_behind(session_id=session.pk, path=daemon.socket)
    assert daemon.quiet()


def test_a_session_that_is_being_ended_takes_no_call(run: Run, daemon: Daemon) -> None:
    begun(run, daemon)
    ask_to_close(run_id=run.pk)
    with pytest.raises(SandboxUnavailable, match="being ended"):
        begun(run, daemon)
    close_left_behind(session_id=ToolSession.objects.get().pk, path=daemon.socket)
    assert ToolSession.objects.get().state == "closed"


def test_a_worker_that_dies_after_the_sandbox_and_before_its_row_knows_it_leaves_nothing(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    row = ToolSession.objects.create(run=run, name=plan().name, node=this_node())
    open_session(place_of(row), plan(), TERMS, path=daemon.socket)
    close_sessions(run_id=run.pk, path=daemon.socket)
    assert daemon.quiet()
    assert ToolSession.objects.get().state == "closed"


def test_a_worker_that_is_killed_inside_a_call_leaves_a_session_that_goes_on(
    run: Run, daemon: Daemon
) -> None:
    begun(run, daemon)
    step = "call_in_session(run_id=run, plan=plan(), command=slow, path=path, on_output=told)"
    killed_at(step, run, daemon)
    assert begun(run, daemon).stdout.startswith(b'["x 2"')
    close_sessions(run_id=run.pk, path=daemon.socket)


def test_a_worker_that_is_killed_while_it_ends_a_session_leaves_that_to_the_sweep(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    begun(run, daemon, plan(stop="import time; time.sleep(3)"))
    killed_at(
        "import threading\n"
        "closing = threading.Thread(target=close_sessions, kwargs={'run_id': run, 'path': path})\n"
        "closing.start()\n"
        "from apps.sandbox.models import ToolSession\n"
        "while not ToolSession.objects.exclude(ending_at=None).exists(): pass\n"
        "told()\n",
        run,
        daemon,
    )
    session = ToolSession.objects.get()
    # Whoever asked may still be at it.
    assert (session.state, list(left_behind(10))) == ("open", [])
    ToolSession.objects.update(ending_at=timezone.now() - ENDING_FOR - timedelta(seconds=1))
    assert list(left_behind(10)) == [session.pk]
    close_left_behind(session_id=session.pk, path=daemon.socket)
    assert ToolSession.objects.get().state == "closed"
    assert daemon.quiet()


def test_a_supervisor_that_is_killed_while_a_session_ends_leaves_a_row_that_does_not_block(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    begun(run, daemon)
    daemon.process.kill()
    daemon.process.wait()
    with pytest.raises(CleanupFailed):
        close_sessions(run_id=run.pk, path=daemon.socket)
    assert ToolSession.objects.get().state == "open"
    daemon.restart()
    close_left_behind(session_id=ToolSession.objects.get().pk, path=daemon.socket)
    assert ToolSession.objects.get().state == "closed"
    assert daemon.quiet()


def test_a_check_has_a_session_of_its_own_and_writes_nothing_down(another_daemon: Starter) -> None:
    daemon = another_daemon()
    own = OwnSession()
    own.close()
    asking = Asking(plan(), python(CALL, {"say": "x"}), path=daemon.socket)
    assert own.ask(asking).stdout.startswith(b'["x 1"')
    assert own.ask(asking).stdout.startswith(b'["x 2"')
    own.close()
    assert daemon.quiet()
    assert not ToolSession.objects.exists()
    unclean = OwnSession()
    unclean.ask(Asking(plan(stop="import sys; sys.exit(3)"), asking.command, path=daemon.socket))
    with pytest.raises(CleanupFailed, match="exit code 3"):
        unclean.close()
    assert daemon.quiet()


def test_a_check_that_is_killed_leaves_a_session_that_ends_by_itself(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    killed_at("OwnSession().ask(Asking(plan(), slow, path=path, on_output=told))", run, daemon)
    assert daemon.quiet() or daemon.quiet()


def test_a_worker_that_is_killed_inside_a_cell_leaves_no_kernel(
    run: Run, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    killed_at(
        "from apps.core.deadlines import Deadline\n"
        "from apps.runs.models import Run\n"
        "from apps.sandbox.kernels import run_cell\n"
        "from apps.sandbox.leases import acquire\n"
        "from tests.sandbox.test_kernels import BASE\n"
        "row = Run.objects.get(pk=run)\n"
        "lease = acquire(owner=row.member, room_id=row.room_id, call_id=None,\n"
        "    deadline=Deadline.after(60))\n"
        'code = "print(1, flush=True); import time; time.sleep(60)"\n'
        "run_cell(lease, language='python', code=code, base=BASE, deadline_s=50, path=path,\n"
        "    on_output=told)\n",
        run,
        daemon,
    )
    assert daemon.quiet()
