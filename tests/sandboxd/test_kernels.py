"""A kernel keeps its state between cells, for its owner alone, within its limits, until it ends."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.sandbox.client import JobRefused, SandboxBusy
from apps.sandbox.errors import KernelLost, SandboxUnavailable
from apps.sandbox.living import Files
from apps.sandbox.spec import Limits, WorkFile
from apps.sandboxd.exchange import Terms
from apps.sandboxd.workfiles import known_of
from tests.sandboxd.daemon import Daemon
from tests.sandboxd.living import Living, holding, python_spec

pytestmark = pytest.mark.sandbox
Starter = Callable[..., Daemon]
numbers = itertools.count(100)


@pytest.fixture
def kernel(daemon: Daemon) -> Iterator[Living]:
    one = Living(daemon, f"kernel-{next(numbers)}")
    yield one
    one.close()


def answering(value: Any) -> Callable[[str, bytes], tuple[bool, bytes]]:
    return lambda name, arguments: (True, json.dumps(value).encode())


def test_what_a_cell_leaves_is_there_for_the_next_one(kernel: Living) -> None:
    assert kernel.value("x = 20\nx + 1") == "21"
    assert kernel.value("x * 2") == "40"
    assert kernel.value("x = 1") is None
    assert not kernel.open().fresh


def test_a_cell_prints_while_it_runs_and_what_it_raises_is_said(kernel: Living) -> None:
    heard: list[bytes] = []
    code = "import sys; print('out'); print('err', file=sys.stderr); {}['key']"
    answered = kernel.cell(code, on_output=lambda stream, chunk: heard.append(chunk))
    said = json.loads(answered.said)
    assert (answered.result.stdout, answered.result.stderr) == (b"out\n", b"err\n")
    assert set(heard) == {b"out\n", b"err\n"}
    assert (said["type"], said["message"]) == ("KeyError", "'key'")
    assert 'File "<cell 1>", line 1' in said["traceback"]
    assert "loop.py" not in said["traceback"]
    assert kernel.value("'still here'") == "'still here'"


@pytest.mark.parametrize(
    "code", ["raise SystemExit(3)", "class Odd(Exception):\n __str__ = 1\nraise Odd"]
)
def test_a_cell_that_raises_anything_ends_alone(kernel: Living, code: str) -> None:
    assert json.loads(kernel.cell(code).said)["ok"] is False
    assert kernel.value("1") == "1"


def test_a_cell_may_call_tools_and_the_answer_comes_from_outside(kernel: Living) -> None:
    asked: list[tuple[str, bytes]] = []

    def call(name: str, arguments: bytes) -> tuple[bool, bytes]:
        asked.append((name, arguments))
        return name != "forbidden", json.dumps(f"{name} answered").encode()

    assert kernel.value("tools.call('find', text='x')", on_call=call) == "'find answered'"
    assert kernel.value("tools.call('find', {'text': 'x'})", on_call=call) == "'find answered'"
    assert asked == [("find", b'{"text": "x"}')] * 2
    said = json.loads(kernel.cell("tools.call('forbidden')", on_call=call).said)
    assert (said["type"], said["message"]) == ("RuntimeError", "forbidden answered")


def test_one_cell_makes_a_bounded_number_of_calls(kernel: Living) -> None:
    code = "for n in range(100):\n    tools.call('find')"
    asked: list[str] = []

    def call(name: str, arguments: bytes) -> tuple[bool, bytes]:
        asked.append(name)
        return True, b"1"

    answered = kernel.cell(code, on_call=call)
    assert len(asked) == 64
    assert "as many calls as it may" in json.loads(answered.said)["message"]
    assert kernel.value("tools.call('find')", on_call=call) == "1"


def test_one_cell_is_given_a_bounded_number_of_bytes(kernel: Living) -> None:
    code = "for n in range(100):\n    tools.call('find')"
    said = json.loads(kernel.cell(code, on_call=answering("x" * 900_000)).said)
    assert "larger than what one request may be given" in said["message"]


def test_a_call_reaches_a_listener_that_was_behind_with_the_output(kernel: Living) -> None:
    heard: list[str] = []

    def slowly(stream: str, output: bytes) -> None:
        if not heard:
            time.sleep(1)
        heard.append(stream)

    code = "import sys\nsys.stdout.write('x' * 900_000)\nsys.stdout.flush()\ntools.call('find')"
    began = time.monotonic()
    assert kernel.value(code, on_call=answering("found"), on_output=slowly) == "'found'"
    assert time.monotonic() - began < 10


def test_what_a_thread_calls_between_two_cells_waits_for_the_next_one(kernel: Living) -> None:
    kernel.value(
        "import threading\n"
        "found = []\n"
        "def later():\n"
        "    for n in range(20): found.append(tools.call('find'))\n"
        "thread = threading.Thread(target=later)\n"
        "thread.start()",
        on_call=answering("early"),
    )
    assert kernel.value("thread.join()\nlen(found)", on_call=answering("late")) == "20"


def test_a_kernel_answers_to_its_owner_alone(daemon: Daemon, kernel: Living) -> None:
    with pytest.raises(KernelLost):
        kernel.cell("1", owner="owner-two")
    with pytest.raises(KernelLost):
        Living(daemon, kernel.key, owner="owner-two")
    with pytest.raises(KernelLost):
        kernel.cell("1", generation="0" * 32)
    assert kernel.value("'mine'") == "'mine'"


def test_a_kernel_cannot_see_or_touch_another(daemon: Daemon, kernel: Living) -> None:
    other = Living(daemon, "kernel-other", owner="owner-two")
    other.value("open('/tmp/secret', 'w').write('x'); open('secret', 'w').write('x')")
    code = (
        "import os, signal\n"
        "seen = [p for p in os.listdir('/proc') if p.isdecimal()]\n"
        "for pid in range(1, 4000):\n"
        "    try: os.kill(pid, signal.SIGKILL) if pid != os.getpid() else None\n"
        "    except OSError: pass\n"
        "(len(seen), os.path.exists('/tmp/secret'), os.path.exists('secret'))"
    )
    assert kernel.value(code) == "(2, False, False)"
    assert other.value("open('secret').read()") == "'x'"
    other.close()


def test_a_cell_that_passes_its_deadline_takes_its_kernel_along(
    daemon: Daemon, kernel: Living
) -> None:
    answered = kernel.cell("import time\nprint('begun', flush=True)\ntime.sleep(60)", deadline_s=1)
    assert (answered.result.reason, answered.kernel_ended) == ("wall_timeout", True)
    assert answered.result.stdout == b"begun\n"
    with pytest.raises(KernelLost):
        kernel.cell("1")
    assert kernel.open().fresh
    assert kernel.value("'time' in globals()") == "False"


def test_whoever_gives_a_cell_up_ends_its_kernel(kernel: Living) -> None:
    answered = kernel.cell("import time; time.sleep(60)", cancelled=lambda: True)
    assert (answered.result.reason, answered.kernel_ended) == ("cancelled", True)


def test_two_cells_run_one_after_the_other(kernel: Living) -> None:
    kernel.value("log = []")
    slow = "import time\nlog.append('a')\ntime.sleep(0.3)\nlog.append('b')"
    first = threading.Thread(target=kernel.cell, args=(slow,))
    first.start()
    time.sleep(0.15)
    assert kernel.value("log.append('c'); log") == "['a', 'b', 'c']"
    first.join()


def test_a_kernel_that_is_busy_all_the_time_is_a_failure_that_says_so(kernel: Living) -> None:
    slow = threading.Thread(target=kernel.cell, args=("import time; time.sleep(2)",))
    slow.start()
    time.sleep(0.5)
    with pytest.raises(SandboxBusy):
        kernel.cell("1", deadline_s=0.3)
    slow.join()


def test_an_idle_kernel_and_an_old_one_end_by_themselves(daemon: Daemon) -> None:
    kernels = {
        "idle for as long": Living(daemon, "kernel-idle", terms=Terms(300, 60_000)),
        "lived as long": Living(daemon, "kernel-aged", terms=Terms(60_000, 300)),
    }
    until = time.monotonic() + 20
    for words, one in kernels.items():
        while words not in daemon.log.read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        with pytest.raises(KernelLost):
            one.cell("1")
        assert not one.close().was_there


def test_a_kernel_is_watched_over_its_whole_life(daemon: Daemon) -> None:
    spec = python_spec(limits=Limits(cpu_ms=1_000))
    one = Living(daemon, "kernel-spins", spec=spec)
    spin = "import time\nuntil = time.process_time() + 0.4\nwhile time.process_time() < until: pass"
    reasons = [one.cell(spin).result.reason for _ in range(2)]
    answered = one.cell(spin)
    assert reasons == ["ok", "ok"]
    assert (answered.result.reason, answered.kernel_ended) == ("cpu_limit", True)
    hoard = Living(daemon, "kernel-hoards", spec=python_spec(limits=Limits(memory_mb=96)))
    fork = (
        "import os, time\nfor n in range(6):\n"
        "    if os.fork() == 0:\n        x = bytearray(40 << 20)\n        time.sleep(60)\n"
        "time.sleep(60)"
    )
    assert hoard.cell(fork).result.reason == "memory_limit"


def test_an_owner_has_so_many_kernels_and_the_longest_idle_makes_room(
    another_daemon: Starter,
) -> None:
    daemon = another_daemon("--kernels", "3", "--kernels-of-one", "2")
    first, second = Living(daemon, "kernel-1"), Living(daemon, "kernel-2")
    first.value("1")
    Living(daemon, "kernel-3")
    assert first.value("1") == "1"
    with pytest.raises(KernelLost):
        second.cell("1")
    Living(daemon, "kernel-4", owner="owner-two")
    # A place that somebody used a moment ago is not taken from them.
    with pytest.raises(SandboxBusy):
        Living(daemon, "kernel-5", owner="owner-three")


def test_a_workspace_is_made_equal_before_a_cell_and_taken_back_after_it(kernel: Living) -> None:
    files = [WorkFile("main.py", b"VALUE = 1\n"), WorkFile("data/old.txt", b"old")]
    code = (
        "import os, main\n"
        "open('data/new.txt', 'w').write('new')\n"
        "os.remove('data/old.txt')\n"
        "os.symlink('/etc/passwd', 'link')\n"
        "main.VALUE"
    )
    answered = kernel.cell(code, files=holding(*files), outputs=("data/new.txt", "link", "none"))
    changes = answered.result.workspace
    assert json.loads(answered.said)["value"] == "1"
    assert changes is not None
    assert changes.changed == (WorkFile("data/new.txt", b"new"),)
    assert changes.removed == ("data/old.txt",)
    found = [(one.name, one.content, one.refused) for one in answered.result.outputs]
    assert found == [("data/new.txt", b"new", ""), ("link", b"", "link"), ("none", b"", "missing")]
    assert [(one.name, one.code) for one in changes.left_out] == [("link", "link")]
    # Another call edited one file and removed another meanwhile: only the edited one travels.
    now = [WorkFile("main.py", b"VALUE = 2\n", executable=True)]
    again = kernel.cell(
        "import os\n(open('main.py').read(), os.listdir('data'))", files=holding(*now)
    )
    assert json.loads(again.said)["value"] == "('VALUE = 2\\n', [])"
    assert again.result.workspace is not None
    assert not again.result.workspace.changed


def test_files_that_cannot_be_put_in_are_refused_and_the_kernel_lives_on(kernel: Living) -> None:
    kernel.value("import os; os.makedirs('main.py/x')")
    with pytest.raises(JobRefused, match="could not be put"):
        kernel.cell("1", files=holding(WorkFile("main.py", b"1")))
    assert kernel.value("1") == "1"


def test_a_kernel_that_ends_while_it_is_given_its_files_is_lost(kernel: Living) -> None:
    files = [WorkFile("main.py", b"1")]

    def load(names: list[str]) -> list[WorkFile]:
        kernel.close()
        return files

    with pytest.raises(KernelLost):
        kernel.cell("1", files=Files(known_of(files), load))


def test_a_kernel_that_is_given_its_files_makes_no_room_for_another(
    another_daemon: Starter,
) -> None:
    daemon = another_daemon("--kernels-of-one", "1")
    one = Living(daemon, "kernel-handed")
    files = [WorkFile("main.py", b"1")]

    def load(names: list[str]) -> list[WorkFile]:
        with pytest.raises(SandboxBusy):
            Living(daemon, "kernel-other")
        return files

    answered = one.cell("open('main.py').read()", files=Files(known_of(files), load))
    assert json.loads(answered.said)["value"] == "'1'"


def test_closing_returns_once_everything_is_dead(another_daemon: Starter) -> None:
    daemon = another_daemon()
    one = Living(daemon, "kernel-forks")
    one.value("import os, time\nfor n in range(5):\n    if os.fork() == 0: time.sleep(600)")
    assert daemon.children()
    assert one.close().was_there
    assert not daemon.children()
    assert not one.close().was_there


def test_stopping_the_supervisor_ends_every_kernel(another_daemon: Starter) -> None:
    daemon = another_daemon()
    kernels = [Living(daemon, f"kernel-{n}", owner=f"owner-no-{n}") for n in range(3)]
    assert daemon.stop() < 6
    daemon.restart()
    for one in kernels:
        with pytest.raises(KernelLost):
            one.cell("1")


class ThreadlessDaemon(Daemon):
    """A machine that has no thread left when the first kernel wants one."""

    program = (
        "-c",
        "import sys, threading\n"
        "start, refused = threading.Thread.start, []\n"
        "def once(self):\n"
        "    if self.name.startswith('kernel-') and not refused:\n"
        "        refused.append(self)\n"
        '        raise RuntimeError("can\'t start new thread")\n'
        "    start(self)\n"
        "threading.Thread.start = once\n"
        "from apps.sandboxd import __main__; sys.exit(__main__.main())",
    )


def test_a_kernel_that_gets_no_thread_leaves_nothing_and_its_key_is_free(
    sandbox_home: Path,
) -> None:
    daemon = ThreadlessDaemon(sandbox_home)
    try:
        with pytest.raises(SandboxUnavailable, match="no thread"):
            Living(daemon, "kernel-thread")
        assert daemon.quiet()
        kernel = Living(daemon, "kernel-thread")
        assert kernel.value("1 + 1") == "2"
        kernel.close()
    finally:
        daemon.remove()


@pytest.mark.parametrize(
    "instead",
    ["os.symlink('/etc/hosts', 'kept')", "os.mkfifo('kept')", "os.link('other', 'kept')"],
)
def test_a_file_that_something_else_was_put_in_place_of_is_there_for_the_next_cell(
    kernel: Living, instead: str
) -> None:
    files = holding(WorkFile("kept", b"as it was"), WorkFile("other", b"o"))
    made = kernel.cell(f"import os\nos.unlink('kept')\n{instead}", files=files)
    assert made.result.workspace is not None
    # It does not come back, and the file that was there before stays.
    assert made.result.workspace.removed == ()
    look = "(os.path.islink('kept'), open('kept').read())"
    assert kernel.value(look, files=files) == "(False, 'as it was')"


def test_files_that_were_too_many_to_come_back_are_as_they_were_for_the_next_cell(
    kernel: Living,
) -> None:
    files = holding(WorkFile("kept", b"as it was"))
    code = "for n in range(2_500): open(f'n{n}', 'w').close()\nopen('kept', 'w').write('other')"
    made = kernel.cell(code, files=files)
    assert made.result.workspace is not None
    assert made.result.workspace.over == "too_many_files"
    assert kernel.value("open('kept').read()", files=files) == "'as it was'"


def test_a_kernel_whose_files_do_not_fit_is_refused_as_a_job_is(daemon: Daemon) -> None:
    spec = replace(
        python_spec(limits=Limits(workspace_mb=1)), workspace=(WorkFile("a", bytes(2 << 20)),)
    )
    with pytest.raises(JobRefused, match="do not fit"):
        Living(daemon, "kernel-too-full", spec=spec)
