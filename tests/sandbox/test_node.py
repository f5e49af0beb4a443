"""How does a tool written for Node run, and how are its package's tests?"""

from __future__ import annotations

from typing import Any

import pytest

from apps.domain.entries import NodeEntry
from apps.sandbox.node import call_node_tool, run_node_tests
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.sandbox.spec import Limits
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox

PACKAGE = b'{"name": "mine", "version": "1.0.0", "type": "module"}'
GREEN = b"""import test from "node:test";
import assert from "node:assert";
import { greet } from "./tool.mjs";
test("greets", async () => assert.equal((await greet({ name: "x" })).hello, "x"));
test("later", { skip: true }, () => {});
"""
TOOL = b"""export async function greet({ name }) {
  console.log("printed", name);
  return { hello: name, nothing: undefined, big: 2 ** 40 };
}
export const notAFunction = 1;
"""


def call(daemon: Daemon, source: bytes, arguments: Any = None, **asked: Any) -> ToolReply:
    name = asked.pop("name", "tool.mjs")
    return call_node_tool(
        tree={"package.json": PACKAGE, name: source, **asked.pop("tree", {})},
        entry=NodeEntry(name, asked.pop("export", "greet")),
        arguments=arguments or {},
        deadline_s=asked.pop("deadline_s", 30),
        path=daemon.socket,
        **asked,
    )


def test_a_function_is_called_with_its_arguments(daemon: Daemon) -> None:
    reply = call(daemon, TOOL, {"name": "äöü"})
    assert (reply.kind, reply.value) == (ReplyKind.VALUE, {"hello": "äöü", "big": 2**40})
    assert reply.stdout == "printed äöü\n"


def test_typescript_loses_its_types(daemon: Daemon) -> None:
    source = b"export function greet(a: { name: string }): unknown { return a.name as string; }"
    assert call(daemon, source, {"name": "x"}, name="tool.ts").value == "x"


def test_what_it_throws_is_told_with_type_and_place(daemon: Daemon) -> None:
    source = b"class Odd extends Error {}\nexport function greet() { throw new Odd('no\\u0000t'); }"
    reply = call(daemon, source)
    assert (reply.kind, reply.error_type, reply.message) == (ReplyKind.RAISED, "Odd", "no?t")
    assert "tool.mjs:2" in reply.traceback


@pytest.mark.parametrize("thrown", ["undefined", "null", "'words'", "{ toString: null }"])
def test_whatever_it_throws_is_told(daemon: Daemon, thrown: str) -> None:
    assert call(daemon, f"export function greet() {{ throw {thrown}; }}".encode()).kind == "raised"


def test_a_missing_export_is_a_broken_contract(daemon: Daemon) -> None:
    for export in ("absent", "notAFunction"):
        reply = call(daemon, TOOL, export=export)
        assert reply.kind is ReplyKind.CONTRACT_ERROR
        assert export in reply.message


@pytest.mark.parametrize("value", ["1n", "(() => { const a = {}; a.a = a; return a; })()"])
def test_a_value_that_is_no_json_is_a_broken_contract(daemon: Daemon, value: str) -> None:
    source = f"export function greet() {{ return {value}; }}".encode()
    assert call(daemon, source).kind is ReplyKind.CONTRACT_ERROR


def test_a_tool_that_ends_its_process_has_not_answered(daemon: Daemon) -> None:
    reply = call(daemon, b"export function greet() { process.exit(7); }")
    assert (reply.kind, reply.exit_code) == (ReplyKind.CRASHED, 7)
    reply = call(daemon, b"export function greet() { return new Promise(() => {}); }")
    assert reply.kind is ReplyKind.CRASHED


def test_an_endless_tool_is_ended(daemon: Daemon) -> None:
    reply = call(daemon, b"export function greet() { for (;;); }", deadline_s=2)
    assert reply.kind is ReplyKind.TIMEOUT


def test_a_full_heap_is_a_memory_limit(daemon: Daemon) -> None:
    source = b"export function greet() { const a = []; for (;;) a.push(new Array(1e5).fill({})); }"
    reply = call(daemon, source, limits=Limits.for_node(memory_mb=160), deadline_s=60)
    assert reply.kind is ReplyKind.MEMORY_LIMIT


@pytest.mark.parametrize(
    "forged",
    [
        "fs.writeSync(3, Buffer.from([0,0,0,2,123,125]));",
        "fs.writeSync(3, 'x');",
        "fs.writeSync(1, JSON.stringify({kind: 'value', value: 1})); process.exit(0);",
    ],
)
def test_what_is_written_beside_the_answer_is_no_answer(daemon: Daemon, forged: str) -> None:
    source = f"import fs from 'node:fs'; export function greet() {{ {forged} return 1; }}".encode()
    assert call(daemon, source).kind is ReplyKind.PROTOCOL_ERROR


def test_a_flood_is_cut_off(daemon: Daemon) -> None:
    source = b"""import fs from 'node:fs';
export function greet() { const b = Buffer.alloc(1 << 20); for (;;) fs.writeSync(3, b); }"""
    assert call(daemon, source).kind is ReplyKind.OUTPUT_LIMIT


def test_it_reaches_nothing_and_changes_nothing(daemon: Daemon) -> None:
    source = b"""import fs from "node:fs"; import net from "node:net";
const attempt = (act) => { try { act(); return "done"; } catch (e) { return e.code; } };
export async function greet() {
  const refused = await new Promise((say) => {
    const link = net.connect(5432, "127.0.0.1");
    link.on("error", (e) => say(e.code)).on("connect", () => say("open"));
  });
  return [attempt(() => fs.writeFileSync("/package/tool.mjs", "")),
          attempt(() => fs.writeFileSync("/runtime/node/x", "")),
          attempt(() => fs.readFileSync("/etc/shadow")), refused,
          Object.keys(process.env).filter((n) => /SECRET|TOKEN|DATABASE|REDIS/.test(n)).length];
}"""
    assert call(daemon, source).value == ["EROFS", "EROFS", "ENOENT", "ECONNREFUSED", 0]


def tested(daemon: Daemon, **files: bytes) -> Any:
    tree = {name.replace("_", "."): content for name, content in files.items()}
    return run_node_tests(
        tree={"package.json": PACKAGE, "tool.mjs": TOOL, **tree},
        deadline_s=60,
        path=daemon.socket,
    )


def test_tests_are_run_and_counted(daemon: Daemon) -> None:
    report = tested(daemon, tool_test_mjs=GREEN)
    assert (report.passed, report.ran, report.failed, report.skipped) == (True, 2, 0, 1)
    assert report.runtime.startswith("Node 2")
    assert "greets" in report.output_tail


def test_a_failing_test_fails_the_run(daemon: Daemon) -> None:
    red = b"""import test from "node:test";
test("a", async (t) => { await t.test("b", () => { throw new Error("red"); }); });
test("c", () => {});
"""
    report = tested(daemon, tool_test_mjs=GREEN, red_test_ts=red)
    assert (report.passed, report.ran, report.failed) == (False, 5, 2)
    assert "red" in report.output_tail


def test_a_file_that_breaks_before_its_tests_fails_the_run(daemon: Daemon) -> None:
    report = tested(daemon, tool_test_mjs=GREEN, red_test_mjs=b"import './absent.mjs';")
    assert (report.passed, report.failed) == (False, 1)


@pytest.mark.parametrize("files", [{}, {"empty_test_mjs": b"console.log('ok 1 - a test');"}])
def test_a_run_without_tests_proves_nothing(daemon: Daemon, files: dict[str, bytes]) -> None:
    report = tested(daemon, **files)
    assert (report.passed, report.ran) == (False, 0)
    assert "No test ran" in report.sentence


def test_tests_write_beside_their_files_and_into_no_report(daemon: Daemon) -> None:
    source = b"""import test from "node:test";
import fs from "node:fs";
import assert from "node:assert";
test("writes", () => {
  fs.writeFileSync("here.txt", "x");
  fs.writeFileSync("tool.mjs", "changed");
});
test("forges", () => {
  assert.throws(() => fs.writeSync(3, "forged"));
  assert.throws(() => fs.writeFileSync(`/proc/${process.ppid}/fd/3`, "forged"));
});
"""
    report = tested(daemon, tool_test_mjs=source)
    assert (report.passed, report.ran) == (True, 2), report.output_tail
