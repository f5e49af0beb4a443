"""A kernel belongs to one member's workspace; its files lie in rows, and its end is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.core.queue import queues
from apps.rooms.models import Room
from apps.rooms.services import invite
from apps.sandbox import kernels
from apps.sandbox.contents import contents, take_back
from apps.sandbox.keeping import delete_workspace
from apps.sandbox.kernel_ends import end_kernel, kernels_to_end, living_kernels, release_kernels
from apps.sandbox.kernels import CellResult, home_of, keep_cell, run_cell, stop_kernel
from apps.sandbox.leases import Lease, acquire, release, this_node
from apps.sandbox.models import Kernel
from apps.sandbox.spec import Limits, SandboxSpec, WorkChanges, WorkFile
from tests.factories.rooms import make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]
Starter = Callable[..., Daemon]
BASE = SandboxSpec(argv=("true",), limits=Limits())


@pytest.fixture
def member() -> User:
    return make_member()


@pytest.fixture
def room(member: User) -> Room:
    return make_room(member)


@pytest.fixture
def cell(daemon: Daemon, member: User, room: Room) -> Any:
    """Run one cell as a call does: under a lease, and with its changes kept."""

    def run(
        code: str,
        *,
        owner: User = member,
        of: Daemon = daemon,
        language: str = "python",
        base: SandboxSpec = BASE,
        **options: Any,
    ) -> CellResult:
        lease = taken(owner, room)
        try:
            ended = run_cell(
                lease,
                language=language,
                code=code,
                base=base,
                path=of.socket,
                **{"deadline_s": 20.0, **options},
            )
            if ended.result.workspace is not None:
                take_back(lease, ended.result.workspace)
            keep_cell(lease, ended)
            return ended
        finally:
            release(lease)

    yield run
    for row in Kernel.objects.exclude(workspace=None).select_related("workspace"):
        stop_kernel(workspace=row.workspace, language=row.language, path=daemon.socket)


def taken(owner: User, room: Room) -> Lease:
    return acquire(owner=owner, room_id=room.pk, call_id=None, deadline=Deadline.after(60))


def test_a_kernel_goes_on_where_the_last_call_left_it(cell: Any, member: User, room: Room) -> None:
    first = cell("import math\nx = 41\nopen('made.txt', 'w').write('by a kernel')")
    assert (first.result.reason, first.value, first.notes) == ("ok", "11", ())
    second = cell("x + 1")
    assert (second.value, second.notes) == ("42", ())
    assert Kernel.objects.get().node == this_node()
    assert home_of(owner=member, room_id=room.pk, language="python") == ""
    lease = taken(member, room)
    assert contents(lease.workspace) == (WorkFile("made.txt", b"by a kernel"),)
    # What another call did to the files is there for the next cell.
    take_back(lease, WorkChanges(changed=(WorkFile("made.txt", b"edited"),)))
    release(lease)
    assert cell("open('made.txt').read()").value == "'edited'"


def test_a_cell_that_fails_ends_as_a_program_that_fails(cell: Any) -> None:
    failed = cell("print('before')\n1 / 0")
    assert (failed.result.reason, failed.result.exit_code) == ("exit", 1)
    assert failed.result.stdout == b"before\n"
    assert b"ZeroDivisionError: division by zero" in failed.result.stderr
    assert cell("1").notes == ()


def test_two_members_of_a_room_have_kernels_and_files_of_their_own(
    cell: Any, member: User, room: Room
) -> None:
    guest = make_member()
    invite(room_id=room.pk, inviter=member, username=guest.username)
    cell("secret = 1\nopen('secret', 'w').close()")
    assert cell("('secret' in globals(), __import__('os').listdir('.'))", owner=guest).value == (
        "(False, [])"
    )


def test_a_kernel_that_was_lost_is_said_and_its_files_are_there(
    cell: Any, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    cell("x = 1\nopen('kept', 'w').write('k')", of=daemon)
    daemon.process.kill()
    daemon.process.wait()
    daemon.restart()
    again = cell("('x' in globals(), open('kept').read())", of=daemon)
    assert again.value == "(False, 'k')"
    assert [note for note in again.notes if "had ended" in note]
    assert cell("1", of=daemon).notes == ()


def test_a_cell_that_ends_its_kernel_says_so(cell: Any) -> None:
    cell("x = 1")
    late = cell("import time; time.sleep(60)", deadline_s=1.0)
    assert late.result.reason == "wall_timeout"
    assert [note for note in late.notes if "the next call starts a fresh one" in note]
    fresh = cell("'x' in globals()")
    assert (fresh.value, fresh.notes) == ("False", ())
    gone = cell("import os; os._exit(9)")
    assert (gone.result.reason, gone.result.exit_code) == ("exit", 9)


def test_a_kernel_of_a_node_that_is_gone_is_started_afresh_and_said(
    cell: Any, member: User, room: Room
) -> None:
    cell("x = 1")
    Kernel.objects.update(node="another", asked_at=timezone.now() - timedelta(minutes=1))
    moved = cell("'x' in globals()")
    assert moved.value == "False"
    assert [note for note in moved.notes if "another machine" in note]
    assert Kernel.objects.get().node == this_node()


def test_a_node_that_looks_at_a_call_has_answered_for_its_kernel(
    cell: Any, member: User, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"owner": member, "room_id": room.pk, "language": "python"}
    cell("x = 1")
    Kernel.objects.update(node="another")
    assert home_of(**asked) == "another"
    # The call came home and failed there before it reached its kernel.
    monkeypatch.setattr(kernels, "this_node", lambda: "another")
    assert home_of(**asked) == ""
    assert Kernel.objects.get().asked_at is None


def sharing_files(**files: bytes) -> SandboxSpec:
    return SandboxSpec(
        argv=("true",),
        env=(("KAIZEN_SHARED_RESOURCES_DIR", "/shared"),),
        shared=tuple(files.items()),
    )


def test_other_surroundings_mean_another_kernel(cell: Any) -> None:
    cell("x = 1")
    other = cell(
        "import os; ('x' in globals(), os.environ['KAIZEN_SHARED_RESOURCES_DIR'])",
        base=sharing_files(given=b"g"),
    )
    assert other.value == "(False, '/shared')"
    assert other.notes
    cell("x = 1", base=sharing_files(given=b"g"))
    # Another text, another file, and one that is refused now.
    for files in ({"given": b"new"}, {"given": b"new", "more": b"m"}, {"more": b"m"}, {}):
        fresh = cell("'x' in globals()", base=sharing_files(**files))
        assert (fresh.value, [n for n in fresh.notes if "Other files" in n] != []) == (
            "False",
            True,
        )
        cell("x = 1", base=sharing_files(**files))


def test_a_kernel_is_not_started_afresh_for_files_that_its_own_cells_made(cell: Any) -> None:
    given = {"given": b"g"}
    cell("x = 1\nopen('made', 'w').write('one')", base=sharing_files(**given))
    # Kept as an artifact, it is shared with the next call, and lies in the workspace anyway.
    again = cell("open('made', 'w').write('two'), x", base=sharing_files(**given, made=b"one"))
    assert (again.value, again.notes) == ("(3, 1)", ())
    later = cell("open('made').read(), x", base=sharing_files(**given, made=b"two"))
    assert (later.value, later.notes) == ("('two', 1)", ())
    # What somebody else made of it is another file.
    assert cell("'x' in globals()", base=sharing_files(**given, made=b"theirs")).value == "False"


def test_a_member_may_stop_a_kernel(cell: Any, daemon: Daemon, member: User, room: Room) -> None:
    cell("x = 1")
    lease = taken(member, room)
    assert stop_kernel(workspace=lease.workspace, language="python", path=daemon.socket)
    assert not Kernel.objects.exists()
    assert not stop_kernel(workspace=lease.workspace, language="python", path=daemon.socket)


def test_targets_of_a_cell_come_back(cell: Any) -> None:
    wanted = SandboxSpec(argv=("true",), outputs=("report.txt", "none.txt"))
    ended = cell("open('report.txt', 'w').write('done')", base=wanted)
    assert [(o.name, o.content, o.refused) for o in ended.result.outputs] == [
        ("report.txt", b"done", ""),
        ("none.txt", b"", "missing"),
    ]


def test_a_cell_that_answers_nonsense_is_a_broken_protocol(cell: Any) -> None:
    forged = cell('import os\nos.write(3, b\'{"kind": "done", "ok": 1}\\n\')')
    assert forged.result.reason == "protocol_error"


def test_tools_are_asked_of_whoever_runs_the_cell(cell: Any) -> None:
    def call(name: str, arguments: bytes) -> tuple[bool, bytes]:
        return True, json.dumps([name, json.loads(arguments)]).encode()

    ended = cell("tools.call('find', text='x')", on_call=call)
    assert (ended.value, ended.calls) == ("['find', {'text': 'x'}]", 1)


def test_a_cell_whose_answer_never_came_is_not_said_to_have_done_nothing(
    cell: Any, another_daemon: Starter
) -> None:
    daemon = another_daemon()
    cell("x = 1\nopen('kept', 'w').write('k')", of=daemon)

    def die(stream: str, chunk: bytes) -> None:
        daemon.process.kill()
        daemon.process.wait()

    code = "open('kept', 'w').write('half')\nprint(1, flush=True)\nimport time; time.sleep(60)"
    broken = cell(code, of=daemon, on_output=die)
    assert broken.result.reason == "driver_failed"
    assert "unknown" in broken.result.detail
    assert [note for note in broken.notes if "the next call starts a fresh one" in note]
    daemon.restart()
    assert cell("('x' in globals(), open('kept').read())", of=daemon).value == "(False, 'k')"


def test_nobody_goes_on_with_what_a_cell_left_whose_call_was_not_kept(
    cell: Any, daemon: Daemon, member: User, room: Room
) -> None:
    cell("x = 1")
    lease = taken(member, room)
    # The worker dies after the cell and before its call is settled.
    run_cell(lease, language="python", code="x = 2", base=BASE, deadline_s=20.0, path=daemon.socket)
    release(lease)
    again = cell("'x' in globals()")
    assert again.value == "False"
    assert [note for note in again.notes if "not heard" in note]
    assert cell("1").notes == ()


def test_where_a_file_cannot_be_put_back_a_fresh_kernel_has_room_for_it(
    cell: Any, member: User, room: Room
) -> None:
    # A folder that holds nothing that comes back stands where another call then puts a file.
    cell("x = 1\nimport os\nos.mkdir('a')\nos.symlink('b', 'a/link')")
    lease = taken(member, room)
    take_back(lease, WorkChanges(changed=(WorkFile("a", b"a file now"),)))
    release(lease)
    again = cell("('x' in globals(), open('a').read())")
    assert again.value == "(False, 'a file now')"
    assert [note for note in again.notes if "did not fit" in note]


def test_a_kernel_ends_at_once_with_its_workspace(
    cell: Any, another_daemon: Starter, member: User, room: Room
) -> None:
    daemon = another_daemon()
    cell("x = 1", of=daemon)
    cell("x", of=daemon)
    assert daemon.children()
    delete_workspace(user=member, room_id=room.pk)
    kernel = Kernel.objects.get()
    assert (kernel.workspace, kernel.node) == (None, this_node())
    assert list(kernels_to_end(10)) == [kernel.pk]
    assert "kernels_to_end" in {queue.name for queue in queues()}
    # The supervisor is away: the row stays, and whoever sweeps next ends it.
    end_kernel(kernel_id=kernel.pk, path=daemon.folder / "nobody")
    assert Kernel.objects.exists()
    end_kernel(kernel_id=kernel.pk, path=daemon.socket)
    assert daemon.quiet()
    assert not Kernel.objects.exists()


def test_the_kernel_of_a_deleted_workspace_on_another_node_is_ended_there_or_is_over_by_itself(
    cell: Any, member: User, room: Room
) -> None:
    cell("x = 1")
    place = Kernel.objects.get()
    Kernel.objects.update(node="another")
    delete_workspace(user=member, room_id=room.pk)
    end_kernel(kernel_id=place.pk)
    assert Kernel.objects.exists()
    Kernel.objects.update(started_at=timezone.now() - timedelta(hours=3))
    end_kernel(kernel_id=place.pk)
    assert not Kernel.objects.exists()


def test_a_kernel_that_is_released_is_said_to_be_and_not_while_a_call_works_with_it(
    cell: Any, another_daemon: Starter, member: User, room: Room
) -> None:
    daemon = another_daemon()
    cell("x = 1", of=daemon)
    where = {"owner": member, "room_id": room.pk}
    lease = taken(member, room)
    release_kernels(**where, path=daemon.socket)
    assert daemon.children()
    release(lease)
    release_kernels(**where, path=daemon.socket)
    assert daemon.quiet()
    assert not living_kernels(**where).exists()
    assert home_of(**where, language="python") == ""
    again = cell("'x' in globals()", of=daemon)
    assert again.value == "False"
    assert [note for note in again.notes if "a person was waited for" in note]
    assert cell("1", of=daemon).notes == ()
