"""An agent reads and edits the files of its programs, beside run_code and never alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.boundary.crossing import Settled
from apps.boundary.pipeline import execute_waiting
from apps.core.deadlines import Deadline
from apps.domain.hashline import Rule
from apps.domain.hashline.views import MAX_VIEW_CHARACTERS
from apps.domain.projection import MAX_CHARS
from apps.domain.tooling import Capability, Reason
from apps.rooms.models import Room
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.sandbox import contents as bounds
from apps.sandbox.contents import contents, take_back
from apps.sandbox.leases import Lease, acquire, hold, release
from apps.sandbox.models import FileSnapshot, Register, Workspace
from apps.sandbox.spec import WorkChanges, WorkFile
from apps.tools.builtin.workspace import _reason_of
from apps.tools.catalog import offered_tools
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db]
RUNS = pytest.mark.django_db(transaction=True)
"""Whoever runs a program holds no transaction meanwhile."""

PAIR = {"read_workspace", "edit_workspace"}
BROKEN = b"def area(width, height):\n    return width + height\n\n\nprint(area(6, 7))\n"


@pytest.fixture(autouse=True)
def supervised(settings: Any, daemon: Daemon) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)


@pytest.fixture
def member() -> User:
    return make_member()


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member)


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    return claimed_run(room, agent, member)


@pytest.fixture
def put(member: User, room: Room) -> Callable[..., Workspace]:
    def write(*files: WorkFile, removed: tuple[str, ...] = ()) -> Workspace:
        with hold(
            owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(30)
        ) as lease:
            take_back(lease, WorkChanges(changed=files, removed=removed))
            return lease.workspace

    return write


class Asked:
    """What an agent was told of its calls, one step after the other."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.step = 1

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.step += 1
        crossing = crossed(self.run, tool, arguments, step=self.step)
        if not isinstance(crossing, Settled):
            execute_waiting(call_id=crossing.call.pk, executor="test")
        return projection_of(Call.objects.get(pk=crossing.call.pk)) or {}

    def read(self, path: str = "", **window: Any) -> dict[str, Any]:
        told = self("read_workspace", **({"path": path} if path else {}), **window)
        assert told["outcome"] == "ok", told
        value: dict[str, Any] = told["value"]
        return value

    def header(self, path: str, **window: Any) -> str:
        return str(self.read(path, **window)["text"].split("\n")[0])

    def edit(self, *rows: str) -> dict[str, Any]:
        return self("edit_workspace", patch="\n".join(rows))

    def refused(self, reason: Reason, rule: Rule, *rows: str) -> dict[str, Any]:
        told = self.edit(*rows)
        assert (told["outcome"], told["reason"]) == ("error", reason.value), told
        assert told["details"]["rule"] == rule.value
        assert told["fault"] == "caller"
        return told


@pytest.fixture
def ask(run: Run) -> Asked:
    return Asked(run)


# --- beside run_code, and never alone


def names(run: Run) -> set[str]:
    return {tool.spec.name for tool in offered_tools(run)}


def test_the_pair_is_offered_with_run_code(run: Run) -> None:
    assert names(run) >= {"run_code", *PAIR}


def test_without_run_code_the_pair_is_not_offered(run: Run) -> None:
    run.selection = sorted(names(run) - {"run_code"})
    assert not names(run) & PAIR


def test_where_nothing_runs_confined_none_of_them_is_offered(run: Run, settings: Any) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = "/nowhere/sandboxd.sock"
    assert not names(run) & {"run_code", *PAIR}


def test_where_the_deployment_switches_code_off_none_of_them_is_offered(
    run: Run, settings: Any
) -> None:
    settings.KAIZEN_FEATURES_OFF = frozenset({"code"})
    assert not names(run) & {"run_code", *PAIR}


def test_an_agent_that_only_reads_never_gets_a_file_surface(member: User) -> None:
    reads = [one.value for one in Capability if one.reads_only]
    reader = make_agent(member, ceiling=reads)
    room = make_room(member, reader)
    assert not names(claimed_run(room, reader, member)) & {"run_code", *PAIR}


# --- an agent repairs a program


@RUNS
def test_an_agent_reads_mends_and_runs_a_program(ask: Asked, put: Callable[..., Workspace]) -> None:
    workspace = put(WorkFile("area.py", BROKEN), WorkFile("run.sh", b"python area.py\n", True))
    code = {"language": "bash", "code": "./run.sh", "artifact_targets": []}
    assert ask("run_code", **code)["value"]["stdout"] == "13\n"
    seen = ask.read("area.py")
    assert (seen["first_line"], seen["last_line"], seen["total_lines"]) == (1, 5, 5)
    header, *rows = seen["text"].split("\n")
    assert rows[1] == "2:    return width + height"
    told = ask.edit(header, "PUT 2.=2:", "+    return width * height")
    assert told["outcome"] == "ok", told
    (file,) = told["value"]["files"]
    assert (file["path"], file["outcome"]) == ("area.py", "update")
    assert file["header"] in told["value"]["answer"]
    assert "-    return width + height\n+    return width * height" in told["value"]["answer"]
    assert ask("run_code", **code)["value"]["stdout"] == "42\n"
    assert [file.executable for file in contents(workspace)] == [False, True]
    # The new header holds for the next edit, without another read.
    assert ask.edit(file["header"], "PUT 5.=5:", "+print(area(2, 3))")["outcome"] == "ok"


@RUNS
def test_what_a_program_changes_between_read_and_edit_is_never_lost(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    lines = "".join(f"line {n}\n" for n in range(1, 11))
    workspace = put(WorkFile("log.txt", lines.encode()))
    header = ask.header("log.txt")
    program = "text = open('log.txt').read()\nopen('log.txt', 'w').write('first\\n' + text)"
    ask("run_code", language="python", code=program, artifact_targets=[])
    told = ask.edit(header, "PUT 5.=5:", "+five")
    assert "recovered_remapped" in told["value"]["answer"]
    (file,) = contents(workspace)
    assert file.content == b"first\n" + lines.replace("line 5\n", "five\n").encode()
    program = "open('log.txt', 'w').write('all new\\n' * 12)"
    ask("run_code", language="python", code=program, artifact_targets=[])
    told = ask.refused(Reason.STALE_FILE, Rule.STALE, header, "PUT 5.=5:", "+5")
    assert "5:all new" in told["details"]["shown"]
    assert contents(workspace)[0].content == b"all new\n" * 12


# --- listing


def test_without_a_path_files_are_listed_page_by_page(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    assert ask.read() == {"files": [], "total": 0}
    put(*(WorkFile(f"d/{n:03}", b"xx", executable=n == 1) for n in range(250)), WorkFile("z", b""))
    first = ask.read()
    assert (first["total"], first["continue_after"], len(first["files"])) == (251, "d/199", 200)
    assert first["files"][:2] == [
        {"path": "d/000", "bytes": 2},
        {"path": "d/001", "bytes": 2, "executable": True},
    ]
    rest = ask.read(after="d/199")
    assert [file["path"] for file in rest["files"]][::50] == ["d/200", "z"]
    assert "continue_after" not in rest
    folder = ask.read("d/")
    assert folder["total"] == 250
    assert ask.read("./")["total"] == ask.read("/")["total"] == 251


def test_what_is_not_there_is_not_found(ask: Asked, put: Callable[..., Workspace]) -> None:
    put(WorkFile("a.txt", b"x"))
    told = ask("read_workspace", path="b.txt")
    assert (told["reason"], told["retryable"]) == ("not_found", False)
    assert ask("read_workspace", path="a")["reason"] == "not_found"


@pytest.mark.parametrize(
    ("path", "content", "rule"),
    [
        ("../a", b"", "bad_path"),
        ("/etc/passwd", b"", "bad_path"),
        ("a\nb", b"", "bad_path"),
        ("image.png", b"\x89PNG\xff", "not_text"),
        ("large.txt", b"x" * (2 * 1024 * 1024 + 1), "file_too_large"),
    ],
)
def test_what_cannot_be_read_as_text_is_refused_with_its_rule(
    ask: Asked, put: Callable[..., Workspace], path: str, content: bytes, rule: str
) -> None:
    if content:
        put(WorkFile(path, content))
    told = ask("read_workspace", path=path)
    assert (told["reason"], told["details"]) == ("invalid_arguments", {"rule": rule})


# --- only what was shown


def test_a_window_shows_no_more_than_arrives(ask: Asked, put: Callable[..., Workspace]) -> None:
    put(WorkFile("quotes.txt", b'""""""""""""""""""""""""""""\n' * 2_000))
    seen = ask.read("quotes.txt")
    assert "more characters" not in seen["text"]
    last = seen["last_line"]
    assert 100 < last < 2_000
    assert f"[showing lines 1-{last} of 2000]" in seen["text"]
    header = seen["text"].split("\n")[0]
    assert ask.edit(header, f"PUT {last}.={last}:", "+x")["outcome"] == "ok"
    again = ask.read("quotes.txt", first_line=last + 1, lines=1)
    assert (again["first_line"], again["last_line"]) == (last + 1, last + 1)
    assert MAX_VIEW_CHARACTERS < MAX_CHARS


def test_an_edit_of_unseen_lines_shows_them_and_may_then_be_sent_again(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    workspace = put(WorkFile("a.txt", "".join(f"{n}\n" for n in range(1, 101)).encode()))
    header = ask.header("a.txt", lines=3)
    patch = (header, "PUT 50.=50:", "+fifty")
    told = ask.refused(Reason.STALE_FILE, Rule.UNSEEN_LINES, *patch)
    assert (told["retryable"], told["details"]["shown"]) == (True, "50:50")
    assert b"\n50\n" in contents(workspace)[0].content
    # The refusal was a note of what it showed: the very same edit is not a repeated failure.
    assert ask.edit(*patch)["outcome"] == "ok"
    assert b"\nfifty\n" in contents(workspace)[0].content


def test_a_line_with_a_credential_is_not_shown_and_so_not_edited(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    secret = b"url = 'https://user:hunter2hunter2@example.com/x'\n"
    workspace = put(WorkFile("settings.py", b"a = 1\n" + secret + b"b = 2\n"))
    seen = ask.read("settings.py")
    assert "hunter2" not in seen["text"]
    header = seen["text"].split("\n")[0]
    assert ask.edit(header, "PUT 1.=1:", "+a = 3")["outcome"] == "ok"
    header = ask.header("settings.py")
    told = ask.edit(header, "PUT 2.=2:", "+url = ''")
    assert (told["outcome"], told["details"]["rule"]) == ("error", "unseen_lines")
    assert secret in contents(workspace)[0].content


# --- all or nothing


def test_several_files_change_together_or_not_at_all(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    workspace = put(
        WorkFile("a.py", b"def f():\n    return 1\n\n\nx = f()\n", executable=True),
        WorkFile("b.py", b"import a\n"),
        WorkFile("c.txt", b"gone\n"),
    )
    a, b, c = ask.header("a.py"), ask.header("b.py"), ask.header("c.txt")
    before = contents(workspace)
    ask.refused(
        Reason.CONFLICT, Rule.OVERLAP, b, "PUT >$:", "+y = 2", a, "CUT 1.=2", "PUT 2.=3:", "+x"
    )
    assert contents(workspace) == before
    assert not Register.objects.exists()
    told = ask.edit(a, "CUT 1* @f", "MV lib/a.py", b, "PUT >$ @f", c, "REM")
    assert told["outcome"] == "ok", told
    assert "Block 1*: lines 1-2 cut." in told["value"]["answer"]
    assert {file["path"]: file["outcome"] for file in told["value"]["files"]} == {
        "lib/a.py": "update",
        "b.py": "update",
        "c.txt": "delete",
    }
    assert told["value"]["files"][0]["moved_from"] == "a.py"
    assert contents(workspace) == (
        WorkFile("b.py", b"import a\ndef f():\n    return 1\n"),
        WorkFile("lib/a.py", b"\n\nx = f()\n", executable=True),
    )
    # The register is there for later calls, by its name.
    later = ask.header("b.py")
    assert ask.edit(later, "PUT <1 @f")["outcome"] == "ok"


def test_refusals_have_the_reason_that_their_rule_means(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    put(WorkFile("a.txt", b"one\ntwo\n"), WorkFile("b.txt", b"x\n"))
    header = ask.header("a.txt")
    ask.refused(Reason.NOT_FOUND, Rule.FILE_NOT_FOUND, "[none.txt#0000]", "REM")
    ask.refused(Reason.STALE_FILE, Rule.UNKNOWN_TAG, "[a.txt#0000]", "PUT 1.=1:", "+x")
    ask.refused(Reason.CONFLICT, Rule.DESTINATION_EXISTS, header, "MV b.txt")
    ask.refused(Reason.INVALID_ARGUMENTS, Rule.BAD_PATH, header, "MV ../out.txt")
    ask.refused(Reason.INVALID_ARGUMENTS, Rule.ORPHAN_ROW, header, "please change line 1")
    ask.refused(Reason.INVALID_ARGUMENTS, Rule.MISSING_SECTION_HEADER, "PUT 1.=1:", "+x")
    assert {_reason_of(rule) for rule in Rule} == {
        Reason.STALE_FILE,
        Reason.CONFLICT,
        Reason.NOT_FOUND,
        Reason.INVALID_ARGUMENTS,
    }


def test_byte_order_mark_and_line_ends_come_back_as_they_were(
    ask: Asked, put: Callable[..., Workspace]
) -> None:
    workspace = put(WorkFile("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n"))
    seen = ask.read("a.txt")
    assert seen["text"].split("\n")[1:] == ["1:one", "2:two"]
    header = seen["text"].split("\n")[0]
    assert ask.edit(header, "PUT 2.=2:", "+zwei")["outcome"] == "ok"
    assert contents(workspace)[0].content == b"\xef\xbb\xbfone\r\nzwei\r\n"


def test_an_edit_beyond_the_bounds_of_the_workspace_leaves_the_old_state(
    ask: Asked, put: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = put(WorkFile("a.txt", b"one\n"))
    header = ask.header("a.txt")
    monkeypatch.setattr(bounds, "MAX_BYTES", 10)
    told = ask.edit(header, "CUT 1.=1 @kept", "PUT >$:", "+a row that is too long")
    assert (told["reason"], told["fault"]) == ("limit_exceeded", "caller")
    assert "at most 10" in told["message"]
    assert contents(workspace) == (WorkFile("a.txt", b"one\n"),)
    assert not Register.objects.exists()
    assert FileSnapshot.objects.count() == 1


# --- one at a time


def test_while_another_call_works_there_both_say_so_and_may_be_tried_again(
    ask: Asked, put: Callable[..., Workspace], member: User, room: Room
) -> None:
    put(WorkFile("a.txt", b"one\n"))
    header = ask.header("a.txt")
    lease: Lease = acquire(owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(60))
    edit = {"patch": f"{header}\nPUT 1.=1:\n+x"}
    for tool, arguments in (("read_workspace", {"path": "a.txt"}), ("edit_workspace", edit)):
        told = ask(tool, **arguments)
        assert (told["reason"], told["retryable"]) == ("conflict", True), told
        assert "Another call is working" in told["message"]
    release(lease)
    assert ask("edit_workspace", **edit)["outcome"] == "ok"


def test_nobody_reads_or_edits_what_is_anothers(
    ask: Asked, put: Callable[..., Workspace], room: Room
) -> None:
    put(WorkFile("a.txt", b"secret\n"))
    header = ask.header("a.txt")
    guest = make_member()
    theirs = make_agent(guest)
    other = Asked(claimed_run(make_room(guest, theirs), theirs, guest))
    assert other("read_workspace", path="a.txt")["reason"] == "not_found"
    other.refused(Reason.NOT_FOUND, Rule.FILE_NOT_FOUND, header, "REM")
