"""In Node a cell is the body of an async function, and what stays is one JSON object."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.sandbox.spec import Limits, SandboxSpec, WorkFile
from tests.sandboxd.daemon import CLONE, Daemon
from tests.sandboxd.living import Living, holding

pytestmark = pytest.mark.sandbox

LOOP = CLONE / "apps/sandbox/harness/kernel_node.mjs"


@pytest.fixture(scope="module")
def supervisor(sandbox_home: Path) -> Iterator[Daemon]:
    """A supervisor for kernels of Node."""
    one = Daemon(sandbox_home)
    yield one
    one.remove()


@pytest.fixture
def kernel(supervisor: Daemon) -> Iterator[Living]:
    spec = SandboxSpec(
        argv=("node", "--disable-warning=ExperimentalWarning", "/kaizen/loop.mjs"),
        harness=(("loop.mjs", LOOP.read_bytes()),),
        runtimes=("node",),
        limits=Limits.for_node(),
    )
    one = Living(supervisor, "kernel-node", spec=spec)
    yield one
    one.close()


def test_a_cell_awaits_returns_and_keeps_its_state(kernel: Living) -> None:
    first = "state.rows = [1]; await new Promise((go) => setTimeout(go, 5)); return state.rows;"
    assert kernel.value(first) == "[ 1 ]"
    assert kernel.value("state.rows.push(2); return state") == "{ rows: [ 1, 2 ] }"
    assert kernel.value("const lost = 1") is None
    said = json.loads(kernel.cell("return lost").said)
    assert (said["type"], said["message"]) == ("ReferenceError", "lost is not defined")
    assert "cell-4.js:1" in said["traceback"]


def test_a_state_that_is_no_json_object_is_an_error_and_the_old_one_stays(kernel: Living) -> None:
    kernel.value("state.n = 1")
    said = json.loads(kernel.cell("state.self = state").said)
    assert said["ok"] is False
    assert kernel.value("return state.n") == "1"
    assert kernel.value("state = {whole: 'other'}; return state.n") is None
    assert kernel.value("return state") == "{ whole: 'other' }"


def test_tools_are_awaited_one_at_a_time(kernel: Living) -> None:
    asked: list[str] = []

    def call(name: str, arguments: bytes) -> tuple[bool, bytes]:
        asked.append(f"{name} {arguments.decode()}")
        return name != "forbidden", json.dumps(name).encode()

    both = "return await Promise.all([tools.call('a', {n: 1}), tools.call('b')])"
    assert kernel.value(both, on_call=call) == "[ 'a', 'b' ]"
    said = json.loads(kernel.cell("await tools.call('forbidden')", on_call=call).said)
    assert said["message"] == "forbidden"
    assert kernel.value("return await tools.available()", on_call=call) == "'tools.available'"
    assert asked == ['a {"n": 1}', "b {}", "forbidden {}", "tools.available {}"]


def test_output_modules_and_files_are_there(kernel: Living) -> None:
    code = (
        "console.log('out'); console.error('err');"
        " const fs = await import('node:fs'); fs.writeFileSync('made.txt', 'x');"
        " return require('./part.js').two"
    )
    files = holding(WorkFile("part.js", b"exports.two = 2"))
    answered = kernel.cell(code, files=files)
    assert json.loads(answered.said)["value"] == "2"
    assert (answered.result.stdout, answered.result.stderr) == (b"out\n", b"err\n")
    assert answered.result.workspace is not None
    assert answered.result.workspace.changed == (WorkFile("made.txt", b"x"),)


@pytest.mark.parametrize(
    "code",
    ["process.exit(3)", "return await new Promise(() => {})", "for (;;) {}", "}); process.abort("],
)
def test_whatever_ends_the_loop_ends_the_kernel_and_nothing_else(kernel: Living, code: str) -> None:
    answered = kernel.cell(code, deadline_s=3)
    if not answered.kernel_ended:
        assert json.loads(answered.said)["ok"] is False
    kernel.open()
    assert kernel.value("return 1") == "1"
