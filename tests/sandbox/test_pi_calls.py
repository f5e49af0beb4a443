"""How is one tool of an approved Pi package run?"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from apps.domain.entries import PiEntry
from apps.sandbox.pi import call_pi_tool
from apps.sandbox.runner import ReplyKind, ToolReply
from tests.factories import pi as made
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox

ANY: dict[str, Any] = {"type": "object", "properties": {}}
PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
).decode()


def call(
    daemon: Daemon, body: str, arguments: Any = None, *, seconds: float = 30, **asked: Any
) -> ToolReply:
    """Call the tool `x`, whose `execute` has this body."""
    schema = asked.pop("schema", ANY)
    more = asked.pop("more", "")
    source = f"""import fs from "node:fs";
import {{ Type }} from "typebox";
export default function (pi) {{
  pi.registerTool({{ name: "x", label: "X", description: "d",
    parameters: {asked.pop("registered", "Type.Object({})")}, {more}
    async execute(id, params, signal, onUpdate, ctx) {{ {body} }} }});
}}"""
    return call_pi_tool(
        tree=made.tree(extension=source.encode()),
        entry=PiEntry("extensions/dice.ts", "x"),
        parameters=schema,
        arguments=arguments or {},
        deadline_s=seconds,
        path=daemon.socket,
        **asked,
    )


def test_a_tool_answers_with_content_and_values(daemon: Daemon) -> None:
    reply = call_pi_tool(
        tree=made.tree(),
        entry=PiEntry("extensions/dice.ts", "roll"),
        parameters=made.SCHEMA,
        arguments={"sides": "6"},
        deadline_s=30,
        path=daemon.socket,
    )
    # Pi turns a text into the number that the schema asks for.
    value = {"content": [{"type": "text", "text": "a 6"}], "details": {"most": 6}}
    assert (reply.kind, reply.value) == (ReplyKind.VALUE, value)


def test_only_known_fields_come_back(daemon: Daemon) -> None:
    reply = call(
        daemon,
        f"""return {{ content: [
            {{ type: "text", text: "a", textSignature: "s", extra: 1 }},
            {{ type: "image", mimeType: "image/png", data: "{PIXEL}", more: 2 }}],
          structuredContent: {{ a: 1 }}, terminate: true, usage: {{}}, permission: "granted",
          attachments: ["x"] }};""",
    )
    assert reply.value == {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "mimeType": "image/png", "data": PIXEL},
        ],
        "structuredContent": {"a": 1},
    }


@pytest.mark.parametrize(
    "content",
    [
        "'text'",
        "[{ type: 'audio', data: 'x' }]",
        "[{ type: 'image', mimeType: 'image/png', data: 'no base64' }]",
        "[{ type: 'image', mimeType: 'text/html', data: 'PGI+' }]",
        "[1]",
        "Array(40).fill({ type: 'text', text: 'x' })",
    ],
)
def test_what_is_no_content_is_a_broken_contract(daemon: Daemon, content: str) -> None:
    assert call(daemon, f"return {{ content: {content} }};").kind is ReplyKind.CONTRACT_ERROR


def test_a_thrown_error_and_a_stated_one_are_failures(daemon: Daemon) -> None:
    thrown = call(daemon, "throw new RangeError('too far');")
    assert (thrown.kind, thrown.error_type) == (ReplyKind.RAISED, "RangeError")
    assert thrown.message == "too far"
    stated = call(
        daemon, "return { content: [{ type: 'text', text: 'not today' }], isError: true };"
    )
    assert (stated.kind, stated.message) == (ReplyKind.STATED, "not today")
    long = "return { content: [{ type: 'text', text: 'x'.repeat(9000) }], isError: true };"
    assert call(daemon, long).message == "x" * 9000


def test_arguments_are_prepared_then_checked(daemon: Daemon) -> None:
    body = "return { content: [{ type: 'text', text: `${params.n}` }] };"
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    registered = "Type.Object({ n: Type.Integer() })"
    more = "prepareArguments: (raw) => ({ n: raw.number ?? raw.n }),"
    asked: dict[str, Any] = {"schema": schema, "registered": registered, "more": more}
    good = call(daemon, body, {"number": 7}, **asked)
    assert good.value == {"content": [{"type": "text", "text": "7"}]}
    bad = call(daemon, body, {"n": "seven"}, **asked)
    assert (bad.kind, "Validation failed" in bad.message) == (ReplyKind.RAISED, True)


def test_other_parameters_than_reviewed_are_not_called(daemon: Daemon) -> None:
    reply = call(daemon, "fs.writeFileSync('/tmp/ran', ''); return { content: [] };",
                 schema=made.SCHEMA)  # fmt: skip
    assert (reply.kind, "reviewed" in reply.message) == (ReplyKind.CONTRACT_ERROR, True)


def test_a_tool_that_is_not_registered_is_a_broken_contract(daemon: Daemon) -> None:
    reply = call_pi_tool(
        tree=made.tree(), entry=PiEntry("extensions/dice.ts", "absent"), parameters=ANY,
        arguments={}, deadline_s=30, path=daemon.socket,
    )  # fmt: skip
    assert reply.kind is ReplyKind.CONTRACT_ERROR
    broken = call_pi_tool(
        tree=made.tree(extension=b"throw new Error('broken');"),
        entry=PiEntry("extensions/dice.ts", "roll"), parameters=ANY,
        arguments={}, deadline_s=30, path=daemon.socket,
    )  # fmt: skip
    assert (broken.kind, "broken" in broken.message) == (ReplyKind.CONTRACT_ERROR, True)


def test_what_pi_offers_a_tool_is_there_and_does_nothing(daemon: Daemon) -> None:
    reply = call(
        daemon,
        """onUpdate({ content: [{ type: "text", text: "half" }] });
        ctx.ui.notify("x"); ctx.abort(); ctx.shutdown();
        const nested = await ctx.executeTool("bash", { command: "true" });
        return { content: [], details: [ctx.hasUI, ctx.mode, ctx.isIdle(), ctx.isProjectTrusted(),
          typeof ctx.ui.theme, nested.isError, ctx.tools?.length ?? 0] };""",
    )
    assert reply.kind is ReplyKind.VALUE, reply
    assert reply.value == {
        "content": [],
        "details": [False, "print", True, False, "object", True, 0],
    }


def test_no_lifecycle_hook_is_ever_called(daemon: Daemon) -> None:
    source = b"""let called = 0;
export default function (pi) {
  for (const event of ["session_start", "tool_call", "tool_result", "agent_start", "turn_start"]) {
    pi.on(event, () => { called += 1; });
  }
  pi.registerTool({ name: "x", label: "X", description: "d", parameters: { type: "object",
    properties: {} }, execute: async () => ({ content: [], details: called }) });
}"""
    reply = call_pi_tool(
        tree=made.tree(extension=source), entry=PiEntry("extensions/dice.ts", "x"),
        parameters=ANY, arguments={}, deadline_s=30, path=daemon.socket,
    )  # fmt: skip
    assert reply.value == {"content": [], "details": 0}


LISTENS = """await new Promise((_, stop) => signal.addEventListener("abort", () => {
    console.log("stopping"); stop(signal.reason); }));"""
ENDLESS = ("await new Promise(() => {});", "for (;;);")


@pytest.fixture(scope="module")
def waiting(daemon: Daemon) -> Iterator[dict[str, Future[ToolReply]]]:
    """Calls that last until their deadline: they wait beside each other."""
    with ThreadPoolExecutor() as pool:
        yield {body: pool.submit(call, daemon, body, seconds=10) for body in ENDLESS}


def test_a_tool_that_listens_is_asked_to_stop(daemon: Daemon) -> None:
    # By itself: whoever is to say something before its end needs a processor for it.
    reply = call(daemon, LISTENS, seconds=12)
    assert (reply.kind, reply.stdout) == (ReplyKind.TIMEOUT, "stopping\n")


@pytest.mark.parametrize("body", ENDLESS)
def test_one_that_does_not_is_ended(waiting: dict[str, Future[ToolReply]], body: str) -> None:
    assert waiting[body].result(60).kind is ReplyKind.TIMEOUT


def test_timers_and_servers_do_not_hold_up_the_answer(daemon: Daemon) -> None:
    reply = call(daemon, "setInterval(() => {}, 1000); return { content: [] };")
    assert reply.value == {"content": []}
