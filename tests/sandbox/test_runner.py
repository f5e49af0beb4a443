"""A tool's answer is read as a claim, and every way of not answering has its own word."""

import textwrap
from typing import Any

import pytest

from apps.sandbox.client import JobRefused, Limits, SandboxUnavailable
from apps.sandbox.replies import BadReply, Counts, read_counts, read_tool_reply
from apps.sandbox.runner import (
    ReplyKind,
    TestReport,
    ToolReply,
    call_python_tool,
    report_of,
    run_unittests,
)
from apps.sandboxd.jobs import Reason, SandboxResult
from tests.sandboxd.daemon import Daemon

LIMITS = Limits(wall_ms=20_000, cpu_ms=10_000)


def call(daemon: Daemon, source: str, *, entry: str = "tool:run", **asked: Any) -> ToolReply:
    asked.setdefault("arguments", {"n": 3})
    asked.setdefault("limits", LIMITS)
    tree = {"package.json": b"{}", "tool.py": textwrap.dedent(source).encode()}
    return call_python_tool(
        tree=tree | asked.pop("more", {}), entry=entry, deadline_s=30, path=daemon.socket, **asked
    )


def tried(daemon: Daemon, **files: str) -> TestReport:
    tree = {
        name.replace("__", "/") + ".py": textwrap.dedent(text).encode()
        for name, text in files.items()
    }
    return run_unittests(tree=tree, limits=LIMITS, deadline_s=40, path=daemon.socket)


@pytest.mark.sandbox
def test_a_tool_returns_its_value_and_its_prints_stay_apart(daemon: Daemon) -> None:
    reply = call(
        daemon,
        """
        import sys
        from inner.part import double

        def run(arguments):
            print("working \\x1b[31m", arguments)
            print("note", file=sys.stderr)
            return {"content": double(arguments["n"]), "artifacts": []}
        """,
        more={"inner/__init__.py": b"", "inner/part.py": b"def double(n): return 2 * n"},
    )
    assert reply.kind is ReplyKind.VALUE
    assert reply.ok
    assert reply.value == {"content": 6, "artifacts": []}
    assert reply.stdout == "working \\x1b[31m {'n': 3}\n"
    assert reply.stderr == "note\n"


ENDINGS = [
    ("def run(a): raise ValueError('no ' + 'x' * 9000)", ReplyKind.RAISED, "no xxx"),
    ("def run(a): raise ValueError('x' * 9000 + 'end')", ReplyKind.RAISED, "xend"),
    ("def run(a): raise SystemExit(3)", ReplyKind.RAISED, "3"),
    ("def run(a): return {1, 2}", ReplyKind.CONTRACT_ERROR, "not JSON"),
    ("def run(a): return float('nan')", ReplyKind.CONTRACT_ERROR, "not JSON"),
    ("def run(a):\n    l = []; l.append(l); return l", ReplyKind.CONTRACT_ERROR, "not JSON"),
    ("x = 1", ReplyKind.CONTRACT_ERROR, "no function run"),
    ("run = 1", ReplyKind.CONTRACT_ERROR, "no function run"),
    ("def run(:", ReplyKind.RAISED, "invalid syntax"),
    ("import os\ndef run(a): os._exit(0)", ReplyKind.PROTOCOL_ERROR, "without an answer"),
    ("import os\ndef run(a): os._exit(4)", ReplyKind.CRASHED, "exit code 4"),
    ("import os\ndef run(a): os.abort()", ReplyKind.CRASHED, "exit code 134"),
    ("def run(a): return '\\ud800'", ReplyKind.PROTOCOL_ERROR, "surrogate"),
    ("def run(a): return 10 ** 50", ReplyKind.PROTOCOL_ERROR, "digits"),
    ("def run(a):\n    v = 0\n    for _ in range(90): v = [v]\n    return v",
     ReplyKind.PROTOCOL_ERROR, "deep"),
    ("class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\n"
     "def run(a): raise E", ReplyKind.RAISED, "no readable text"),
    ("def run(a): raise OSError('no \\udcff\\0')", ReplyKind.RAISED, "no ??"),
    ("class D(dict):\n    def items(self): raise OSError('mine')\n"
     "def run(a): return D(a=1)", ReplyKind.CONTRACT_ERROR, "not JSON: mine"),
]  # fmt: skip


@pytest.mark.sandbox
@pytest.mark.parametrize(("source", "kind", "words"), ENDINGS)
def test_every_ending_has_its_word(
    daemon: Daemon, source: str, kind: ReplyKind, words: str
) -> None:
    reply = call(daemon, source)
    assert reply.kind is kind, reply
    assert words in reply.message
    assert len(reply.message) <= 64 * 1024
    assert reply.value is None


@pytest.mark.sandbox
def test_a_value_is_read_once(daemon: Daemon) -> None:
    reply = call(
        daemon,
        """
        class Flips(dict):
            seen = []

            def items(self):
                self.seen.append(1)
                return [("a", 1 if len(self.seen) == 1 else float("nan"))]

        def run(arguments): return Flips(a=1)
        """,
    )
    assert (reply.kind, reply.value) == (ReplyKind.VALUE, {"a": 1})


@pytest.mark.sandbox
def test_what_a_tool_raised_is_told_with_its_own_lines(daemon: Daemon) -> None:
    reply = call(daemon, "def run(a):\n    return a['missing']")
    assert (reply.error_type, reply.message) == ("KeyError", "'missing'")
    assert "/package/tool.py" in reply.traceback
    assert "/kaizen/" not in reply.traceback


@pytest.mark.sandbox
def test_a_module_of_the_standard_library_is_no_tool(daemon: Daemon) -> None:
    reply = call(daemon, "", entry="os:getcwd")
    assert reply.kind is ReplyKind.CONTRACT_ERROR
    assert "not a module of this package" in reply.message


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("source", "limits", "kind"),
    [
        ("import time\ndef run(a): time.sleep(60)", Limits(wall_ms=800), ReplyKind.TIMEOUT),
        ("def run(a):\n    while True: pass", Limits(cpu_ms=500), ReplyKind.CPU_LIMIT),
        (
            "import os, time\ndef run(a):\n    for _ in range(8):\n        if os.fork() == 0:\n"
            "            x = bytearray(40 << 20); time.sleep(60)\n    time.sleep(60)",
            Limits(memory_mb=128),
            ReplyKind.MEMORY_LIMIT,
        ),
        (
            "import os\ndef run(a):\n    while True: os.write(1, b'x' * 65536)",
            Limits(output_read_mb=1),
            ReplyKind.OUTPUT_LIMIT,
        ),
    ],
)
def test_a_tool_past_its_limits_is_ended(
    daemon: Daemon, source: str, limits: Limits, kind: ReplyKind
) -> None:
    reply = call(daemon, source, limits=limits)
    assert reply.kind is kind
    assert reply.message


@pytest.mark.sandbox
def test_a_tool_keeps_nothing_between_calls(daemon: Daemon) -> None:
    source = """
        import os
        def run(arguments):
            seen = [os.listdir(p) for p in ("/workspace", "/tmp", "/dev/shm")]
            for place in ("/workspace", "/tmp", "/dev/shm"):
                open(place + "/left", "w").close()
            return seen
        """
    assert call(daemon, source).value == [[], [], []]
    assert call(daemon, source).value == [[], [], []]


@pytest.mark.parametrize(
    "entry", ["", "tool", "tool:", ":run", "a b:c", "../x:y", "t:r:u", "t:r\n"]
)
def test_a_bad_entry_is_refused(entry: str, tmp_path: Any) -> None:
    with pytest.raises(JobRefused):
        call_python_tool(tree={}, entry=entry, arguments={}, deadline_s=1, path=tmp_path / "s")


def test_without_a_sandbox_there_is_no_answer_and_no_report(tmp_path: Any) -> None:
    missing = tmp_path / "missing.sock"
    reply = call_python_tool(tree={}, entry="a:b", arguments={}, deadline_s=1, path=missing)
    assert reply.kind is ReplyKind.UNAVAILABLE
    assert "not running" in reply.message
    with pytest.raises(SandboxUnavailable):
        run_unittests(tree={}, deadline_s=1, path=missing)


GREEN = """
    import unittest
    from tool import double

    class Doubles(unittest.TestCase):
        def test_two(self):
            self.assertEqual(double(2), 4)

        def test_it_may_write_beside_itself(self):
            open("note.txt", "w").write("x")
            self.assertEqual(open("note.txt").read(), "x")
"""


@pytest.mark.parametrize(
    ("ran", "sentence"),
    [(1, "1 test ran and did not fail."), (2, "2 tests ran and none failed.")],
)
def test_a_pass_is_said_in_words_that_fit_its_count(ran: int, sentence: str) -> None:
    counts = Counts(ran=ran, failed=0, skipped=0, names=())
    assert report_of(SandboxResult(Reason.OK), (counts, ""), runtime="").sentence == sentence


@pytest.mark.sandbox
def test_a_green_run_passes_with_its_counts(daemon: Daemon) -> None:
    report = tried(daemon, tool="def double(n): return 2 * n", test_tool=GREEN)
    assert report.passed, report
    assert (report.ran, report.failed, report.skipped) == (2, 0, 0)
    assert "test_two" in report.output_tail
    assert report.sentence == "2 tests ran and none failed."
    assert report.runtime.startswith("Python 3.")
    assert report.duration_ms > 0


@pytest.mark.sandbox
def test_a_red_run_fails_with_its_counts(daemon: Daemon) -> None:
    report = tried(daemon, tool="def double(n): return n", test_tool=GREEN)
    assert not report.passed
    assert (report.ran, report.failed) == (2, 1)
    assert "1 of 2" in report.sentence
    assert "AssertionError" in report.output_tail


@pytest.mark.sandbox
def test_a_tree_that_does_not_import_fails(daemon: Daemon) -> None:
    report = tried(daemon, test_tool="import no_such_module")
    assert not report.passed
    assert report.failed == 1


SKIPPED = """
    import unittest

    class Nothing(unittest.TestCase):
        @unittest.skip("later")
        def test_later(self): pass
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("source", ["x = 1", SKIPPED])
def test_no_test_is_no_pass(daemon: Daemon, source: str) -> None:
    report = tried(daemon, test_tool=source)
    assert not report.passed
    assert "No test ran" in report.sentence


PARTS = """
    import unittest

    class Parts(unittest.TestCase):
        def test_some(self):
            for number in range(5):
                with self.subTest(number=number):
                    if number < 4:
                        self.skipTest("later")

        def test_most(self):
            for number in range(40):
                with self.subTest(number=number):
                    self.assertLess(number, BOUND)

    class Nothing(unittest.TestCase):
        @classmethod
        def setUpClass(cls): raise unittest.SkipTest("later")

        def test_later(self): pass
"""


@pytest.mark.sandbox
@pytest.mark.parametrize(("bound", "failed"), [(40, 0), (1, 1)])
def test_parts_of_a_test_count_for_the_whole(daemon: Daemon, bound: int, failed: int) -> None:
    report = tried(daemon, test_tool=PARTS.replace("BOUND", str(bound)))
    assert (report.ran, report.failed, report.skipped) == (3, failed, 1)
    assert report.passed is (failed == 0)


PATCHED = [
    "unittest.TextTestResult.addFailure = lambda *_: None\n"
    "unittest.TestResult.wasSuccessful = lambda _: True\n",
    "class Fine:\n"
    "    testsRun, failures, errors, unexpectedSuccesses, skipped = 5, [], [], [], []\n"
    "    def wasSuccessful(self): return True\n"
    "unittest.TextTestRunner.run = lambda *_: Fine()\n",
    "unittest.TestCase.run = lambda self, result: result.startTest(self)\n",
]


@pytest.mark.sandbox
@pytest.mark.parametrize("patch", PATCHED)
def test_a_package_that_softens_unittest_passes_nothing(daemon: Daemon, patch: str) -> None:
    red = "class T(unittest.TestCase):\n    def test_red(self): self.fail()\n"
    report = tried(daemon, test_tool=f"import unittest\n{patch}{red}")
    assert not report.passed, report


FORGED = [
    # An exit that looks like success, with the words of success on both streams.
    "import os, sys\n"
    "print('Ran 5 tests in 0.001s\\n\\nOK', file=sys.stderr, flush=True)\n"
    "print('{\"passed\": true, \"ran\": 5}', flush=True)\n"
    "os._exit(0)\n",
    # The same, with something on the result channel that is no report.
    "import os\nos.write(3, b'\\x00\\x00\\x00\\x02OK')\nos._exit(0)\n",
    "import os\nos.write(3, b'\\x00\\x00\\x00\\x02{}')\nos._exit(0)\n",
    # A report that is cut off by the end of the process.
    "import os\nos.write(3, b'\\x00\\x00\\xff\\xff{\"ran\": 5')\nos._exit(0)\n",
    # A plausible report, and a process that then fails.
    "import json, os\n"
    "d = json.dumps({'ran': 5, 'failed': 0, 'skipped': 0, 'names': []}).encode()\n"
    "os.write(3, len(d).to_bytes(4, 'big') + d)\nos._exit(1)\n",
    # A second report after the first.
    "import json, os, unittest\n"
    "d = json.dumps({'ran': 5, 'failed': 0, 'skipped': 0, 'names': []}).encode()\n"
    "os.write(3, len(d).to_bytes(4, 'big') + d)\n"
    "class T(unittest.TestCase):\n    def test_red(self): self.fail()\n",
]  # fmt: skip


@pytest.mark.sandbox
@pytest.mark.parametrize("source", FORGED)
def test_a_forged_pass_is_none(daemon: Daemon, source: str) -> None:
    tree = {"test_tool.py": source.encode()}
    report = run_unittests(tree=tree, limits=LIMITS, deadline_s=40, path=daemon.socket)
    assert not report.passed, report
    assert report.sentence


@pytest.mark.parametrize(
    "payload",
    [
        b"[]", b"1", b"{}", b'{"kind":"value"}', b'{"kind":"value","value":1,"x":1}',
        b'{"kind":"raised","type":1,"message":"","traceback":""}', b'{"kind":"other"}',
        b'{"kind":"value","value":1,"value":2}', b'{"kind":"value","value":NaN}',
        b'{"kind":"value","value":1e999}', b'{"kind":"value","value":1} ', b"\xff",
        b'{"kind":"value","value":"\\ud800"}',
        b'{"kind":"value","value":' + b"[" * 70 + b"]" * 70 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(payload: bytes) -> None:
    if payload.endswith(b"} "):
        frame = (len(payload) - 1).to_bytes(4, "big") + payload
    else:
        frame = len(payload).to_bytes(4, "big") + payload
    with pytest.raises(BadReply):
        read_tool_reply(frame)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"ran":-1,"failed":0,"skipped":0,"names":[]}',
        b'{"ran":true,"failed":0,"skipped":0,"names":[]}',
        b'{"ran":1,"failed":5,"skipped":0,"names":[]}',
        b'{"ran":1,"failed":1,"skipped":1,"names":["a"]}',
        b'{"ran":1,"failed":0,"skipped":0,"names":"x"}',
        b'{"ran":1,"failed":0,"skipped":0}',
    ],
)
def test_counts_that_do_not_add_up_are_refused(payload: bytes) -> None:
    with pytest.raises(BadReply):
        read_counts(len(payload).to_bytes(4, "big") + payload)


def test_arguments_that_are_no_json_can_never_run(tmp_path: Any) -> None:
    with pytest.raises(JobRefused):
        call_python_tool(
            tree={}, entry="tool:run", arguments={"n": float("nan")}, deadline_s=1, path=tmp_path
        )


@pytest.mark.sandbox
def test_a_tool_has_the_libraries_only_in_the_runtime_that_it_asked_for(daemon: Daemon) -> None:
    source = """
    import importlib.util

    def run(arguments):
        return importlib.util.find_spec("openpyxl") is not None
    """
    assert call(daemon, source).value is False
    assert call(daemon, source, runtimes=("office",)).value is True
