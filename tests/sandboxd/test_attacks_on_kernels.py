"""Whatever runs in a kernel may say and do what it likes: it only ever hurts itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.domain.wire import Message, encode
from apps.sandbox.errors import JobRefused, KernelLost, SandboxUnavailable
from apps.sandbox.spec import WorkFile
from apps.sandboxd.kernel_wire import Request, encode_request
from tests.sandboxd.daemon import CLONE, Daemon
from tests.sandboxd.living import Living, holding, python_spec
from tests.sandboxd.test_service import talk

pytestmark = pytest.mark.sandbox

WRITE = "import os\ndef say(data):\n    while data: data = data[os.write(3, data):]\n"


@pytest.fixture(scope="module")
def supervisor(sandbox_home: Path) -> Iterator[Daemon]:
    """A supervisor where nothing but these kernels lives."""
    one = Daemon(sandbox_home)
    yield one
    one.remove()


@pytest.fixture
def kernels(supervisor: Daemon) -> Iterator[Daemon]:
    """The same, with nothing of an earlier test left."""
    Living.made.clear()
    yield supervisor
    for one in Living.made:
        one.close()


@pytest.mark.parametrize(
    "forged",
    [
        "b'nonsense\\n'",
        "b'[1]\\n'",
        'b\'{"kind": "ready"}\\n\'',
        'b\'{"kind": "call", "name": "", "args": {}}\\n\'',
        'b\'{"kind": "call", "name": "x", "args": []}\\n\'',
        'b\'{"kind": "call", "name": "x", "args": {}, "token": 1}\\n\'',
        'b\'{"kind": "shutdown"}\\n\'',
        'b\'{"kind": "done", "kind": "done"}\\n\'',
        "b'{\"kind\": \"done\", \"x\": ' + b'[' * 1000 + b']' * 1000 + b'}\\n'",
        "b'{\"kind\": \"done\", \"x\": ' + b'9' * 1000 + b'}\\n'",
        "b'\\xff\\n'",
        "b'x' * (10 << 20)",
        'b\'{"kind": "call", "name": "x", "args": {}}\\n\' * 2',
    ],
)
def test_a_forged_frame_ends_the_kernel_that_wrote_it(kernels: Daemon, forged: str) -> None:
    one, other = Living(kernels, "kernel-bad"), Living(kernels, "kernel-good")
    answered = one.cell(f"{WRITE}say({forged})\nimport time; time.sleep(60)")
    assert (answered.result.reason, answered.kernel_ended) == ("protocol_error", True)
    assert other.value("1") == "1"
    other.close()
    assert kernels.quiet()


def test_a_frame_between_two_cells_ends_the_kernel(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-late")
    one.value(
        f"{WRITE}import threading, time\n"
        "def later():\n"
        "    time.sleep(0.3)\n"
        '    say(b\'{"kind": "done", "ok": true, "value": null}\\n\')\n'
        "threading.Thread(target=later).start()"
    )
    assert kernels.quiet()
    with pytest.raises(KernelLost):
        one.cell("1")


def test_a_forged_end_is_believed_of_its_own_cell_alone(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-liar")
    forged = 'b\'{"kind": "done", "ok": true, "value": "forged"}\\n\''
    answered = one.cell(f"{WRITE}say({forged})\nimport time; time.sleep(1)")
    assert json.loads(answered.said)["value"] == "forged"
    # The loop's own word about that cell then comes out of turn, and ends it.
    assert kernels.quiet()


@pytest.mark.parametrize(
    "code",
    [
        "import os\nfor n in range(3, 200):\n    try: os.close(n)\n    except OSError: pass",
        "import os, socket\nsocket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RDWR)",
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os\nwhile True: os.read(3, 1)",
    ],
)
def test_a_cell_that_breaks_its_channel_ends_its_kernel(kernels: Daemon, code: str) -> None:
    one = Living(kernels, "kernel-deaf")
    answered = one.cell(code, deadline_s=3)
    assert answered.kernel_ended
    assert answered.result.reason in ("protocol_error", "exit", "wall_timeout")
    assert kernels.quiet()


def test_a_cell_that_patches_its_loop_lies_about_itself_alone(kernels: Daemon) -> None:
    one, other = Living(kernels, "kernel-odd"), Living(kernels, "kernel-plain")
    one.cell('import json\njson.dumps = lambda *a, **k: \'{"kind": "done", "ok": 1}\'')
    assert json.loads(one.cell("1").said) == {"kind": "done", "ok": 1}
    assert other.value("1 + 1") == "2"


@pytest.mark.parametrize("ending", ["deadline", "close"])
def test_processes_that_hide_die_with_their_kernel(kernels: Daemon, ending: str) -> None:
    one = Living(kernels, "kernel-hides")
    hide = (
        "import os, signal, time\n"
        "for n in range(10):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            for s in (signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
        "            for n in range(0, 10):\n"
        "                try: os.close(n)\n"
        "                except OSError: pass\n"
        "            time.sleep(600)\n"
        "        os._exit(0)\n"
    )
    if ending == "deadline":
        assert one.cell(hide + "time.sleep(60)", deadline_s=2).kernel_ended
    else:
        one.value(hide)
        assert len(kernels.children()) >= 1
        one.close()
    assert not kernels.children()


def test_output_without_end_ends_the_kernel_also_between_two_cells(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-loud")
    assert one.cell("while True: print('x' * 10_000)").result.reason == "output_limit"
    one.open()
    one.value(
        "import threading\n"
        "def shout():\n"
        "    while True: print('x' * 10_000)\n"
        "threading.Timer(1, shout).start()"
    )
    assert kernels.quiet()


def test_a_workspace_full_of_traps_is_taken_back_without_following_one(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-traps")
    answered = one.cell(
        "import os, socket\n"
        "os.symlink('/', 'root'); os.symlink('/etc/passwd', 'passwd'); os.mkfifo('pipe')\n"
        "os.mkdir('data'); os.symlink('..', 'data/up'); open('a', 'w').close(); os.link('a', 'b')\n"
        "socket.socket(socket.AF_UNIX).bind('door')",
        files=holding(WorkFile("data.txt", b"1")),
    )
    changes = answered.result.workspace
    assert changes is not None
    assert changes.changed == ()
    assert {one.code for one in changes.left_out} == {"link", "not_a_file", "hard_link"}
    # A folder that became a link is not written through.
    one.value("os.remove('data/up'); os.rmdir('data'); os.symlink('/tmp', 'data')")
    with pytest.raises(JobRefused):
        one.cell("1", files=holding(WorkFile("data/in.txt", b"x")))
    assert one.value("import os; os.listdir('/tmp')") == "[]"


def test_files_are_swapped_while_they_are_written_and_read(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-swaps")
    one.value(
        "import os, threading\n"
        "def swap():\n"
        "    while True:\n"
        "        for make in (lambda: os.symlink('/kaizen', 'd'), lambda: os.mkdir('d')):\n"
        "            try: make()\n"
        "            except OSError: pass\n"
        "            for undo in (os.unlink, os.rmdir):\n"
        "                try: undo('d')\n"
        "                except OSError: pass\n"
        "threading.Thread(target=swap, daemon=True).start()"
    )
    for number in range(20):
        try:
            answered = one.cell("1", files=holding(WorkFile("d/x", b"%d" % number)))
        except JobRefused:
            continue
        assert answered.result.workspace is not None
        assert all(file.name == "d/x" for file in answered.result.workspace.changed)


@pytest.mark.parametrize(
    "message",
    [
        Message("open"),
        Message("request"),
        Message("close", {"key": "short", "owner": "owner-one"}),
        Message("close", {"key": "kernel-one", "owner": "owner-one", "force": True}),
        Message("request", {"key": "kernel-one"}),
        encode_request(Request("kernel-one", "owner-one", "0" * 32, b"no line end", 1000)),
        encode_request(Request("kernel-one", "owner-one", "0" * 32, b"a\nb\n", 1000)),
    ],
)
def test_what_is_no_request_is_refused(kernels: Daemon, message: Message) -> None:
    answer = talk(kernels, encode(message))
    assert answer is not None
    assert answer.kind == "refused"


def test_a_caller_that_is_killed_in_a_cell_takes_the_kernel_along(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-orphan")
    program = (
        "import sys; from pathlib import Path; from tests.sandboxd.living import *; "
        "from apps.sandbox.living import ask_living; from apps.sandboxd.frames import write_line; "
        "ask_living(key=sys.argv[1], owner='owner-one', generation=sys.argv[2], deadline_s=60, "
        "line=write_line({'kind': 'cell', 'code': 'import time; print(1, flush=True); "
        "time.sleep(60)'}), path=Path(sys.argv[3]), "
        "on_output=lambda *_: print('runs', flush=True))"
    )
    words = [one.key, one.opened.generation, str(kernels.socket)]
    caller = subprocess.Popen(
        [sys.executable, "-c", f"import django; django.setup(); {program}", *words],
        cwd=CLONE, stdout=subprocess.PIPE,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "kaizen.settings"},
    )  # fmt: skip
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"runs\n"
    caller.kill()
    caller.wait()
    caller.stdout.close()
    assert kernels.quiet()
    with pytest.raises(KernelLost):
        one.cell("1")


def test_a_supervisor_that_is_killed_takes_every_kernel_along(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-bereft")
    children = kernels.children()
    assert children
    kernels.process.send_signal(signal.SIGKILL)
    kernels.process.wait()
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}/root", "workspace").exists() for pid in children):
        assert time.monotonic() < until
        time.sleep(0.02)
    with pytest.raises(SandboxUnavailable):
        one.cell("1")
    kernels.restart()
    with pytest.raises(KernelLost):
        one.cell("1")


def test_nothing_is_left_of_kernels_that_came_and_went(kernels: Daemon) -> None:
    one = Living(kernels, "kernel-first")
    one.value("1")
    one.close()
    before = kernels.descriptors()
    for number in range(6):
        one = Living(kernels, f"kernel-{number}-x")
        one.value("1", files=holding(WorkFile("a", b"1")))
        if number % 2:
            one.cell("import os; os._exit(1)")
        one.close()
    assert kernels.quiet()
    # A conversation that was answered lets go of its connection a moment later.
    until = time.monotonic() + 10
    while kernels.descriptors() > before:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_loop_that_never_becomes_ready_does_not_become_a_kernel(kernels: Daemon) -> None:
    for source in ("import sys; sys.exit(3)", "import os; os.write(3, b'hello\\n'); os.read(3, 1)"):
        with pytest.raises(SandboxUnavailable, match="did not start"):
            Living(kernels, "kernel-dud", spec=python_spec(source))
    assert kernels.quiet()
