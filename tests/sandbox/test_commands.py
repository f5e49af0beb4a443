"""A package's program is called in a place of its own, and its answer is read as a claim."""

import base64
import struct
import textwrap
import zlib
from typing import Any

import pytest

from apps.domain.entries import CommandEntry, Program, Protocol
from apps.domain.scoping import Artifact, ArtifactKind
from apps.sandbox.client import Limits
from apps.sandbox.commands import Bench, call_command_tool
from apps.sandbox.runner import ReplyKind, ToolReply
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\x00\x00"))
    + chunk(b"IEND", b"")
)
SCOPE = Artifact(
    "app",
    ArtifactKind.FOLDER,
    "",
    (("rules", Artifact("spec", ArtifactKind.FOLDER, "docs/rules")),),
)


def call(
    daemon: Daemon,
    source: str = "",
    *args: str,
    protocol: Protocol = Protocol.JSON,
    arguments: dict[str, Any] | None = None,
    scope: Artifact = SCOPE,
    command: str = "tools/run",
    pins: tuple[str, ...] = ("tools",),
    timeout_ms: int = 20_000,
    deadline_s: float = 30,
    limits: Limits | None = None,
    runtimes: tuple[str, ...] = (),
) -> ToolReply:
    script = "#!/usr/bin/env python\nimport json, os, sys\n" + textwrap.dedent(source)
    tree = {
        "package.json": b"{}",
        "tools/run": script.encode(),
        "docs/rules/style.md": b"# Style\n",
        "docs/rules/run": script.encode(),
        "README.md": b"# App\n",
    }
    entry = CommandEntry(protocol, Program(command, args, pins), timeout_ms=timeout_ms)
    bench = Bench(
        tree,
        scope,
        limits or Limits(),
        deadline_s,
        path=daemon.socket,
        published="cover_app",
        runtimes=runtimes,
    )
    return call_command_tool(entry, arguments or {}, bench)


def text_of(reply: ToolReply) -> str:
    assert reply.kind is ReplyKind.VALUE, reply
    assert isinstance(reply.value, dict)
    (block,) = reply.value["content"]  # type: ignore[misc]
    assert isinstance(block, dict)
    return str(block["text"])


ECHO = """
request = json.load(sys.stdin)
facts = {
    "request": request,
    "argv": sys.argv[1:],
    "cwd": os.getcwd(),
    "made": [os.path.isdir(request["context"][name]) for name in ("outputDir", "tmpDir")],
    "alien": [name for name in os.environ if "ARTIFACTIZE" in name],
    "rest": sys.stdin.read(),
}
print(json.dumps({"content": [{"type": "json", "data": facts}]}))
"""


def test_a_program_reads_its_whole_call_from_one_object(daemon: Daemon) -> None:
    reply = call(daemon, ECHO, "--rules={spec}/style.md", "{{x}}", arguments={"section": "a"})
    assert reply.kind is ReplyKind.VALUE, reply
    facts = reply.value["content"][0]["data"]  # type: ignore[index,call-overload]
    assert facts == {
        "request": {
            "version": 1,
            "context": {
                "artifactId": "app",
                "artifactPath": "/package",
                "outputDir": "/workspace/output",
                "tmpDir": "/tmp/call",
                "scope": {
                    "app": {
                        "path": "/package",
                        "kind": "folder",
                        "children": {
                            "rules": {
                                "path": "/package/docs/rules",
                                "kind": "folder",
                                "children": {},
                            }
                        },
                    }
                },
                "executionPaths": {"tools": "/package/tools"},
            },
            "args": {"section": "a"},
        },
        "argv": ["--rules=/package/docs/rules/style.md", "{x}"],
        "cwd": "/package",
        "made": [True, True],
        "alien": [],
        "rest": "",
    }
    assert {name: set(pins) for name, pins in reply.pins.items()} == {"cover_app": {"tools"}}


def test_a_program_of_a_file_works_in_its_folder(daemon: Daemon) -> None:
    scope = Artifact("style", ArtifactKind.FILE, "docs/rules/style.md")
    said = (
        "import json, os; print(json.dumps({'content': [{'type': 'text', 'text': os.getcwd()}]}))"
    )
    literal = said.replace("{", "{{").replace("}", "}}")
    reply = call(daemon, "", "-c", literal, scope=scope, command="python", pins=())
    assert text_of(reply) == "/package/docs/rules"


def test_images_are_read_below_the_output_folder(daemon: Daemon) -> None:
    source = f"""
    out = json.load(sys.stdin)["context"]["outputDir"]
    os.makedirs(out + "/shots")
    open(out + "/shots/a.png", "wb").write({PNG!r})
    print(json.dumps({{"content": [
        {{"type": "image", "mimeType": "image/png", "path": "shots/a.png"}},
        {{"type": "image", "mimeType": "image/png", "path": out + "/shots/a.png"}},
        {{"type": "image", "mimeType": "image/png", "data": "{base64.b64encode(PNG).decode()}"}},
    ]}}))
    """
    reply = call(daemon, source)
    assert reply.kind is ReplyKind.VALUE, reply
    wanted = {
        "type": "image",
        "mimeType": "image/png",
        "data": base64.b64encode(PNG).decode(),
    }
    assert reply.value == {"content": [wanted] * 3}


@pytest.mark.parametrize(
    ("make", "path"),
    [
        ("os.symlink('/package/README.md', out + '/a.png')", "a.png"),
        ("os.symlink('/workspace', out + '/up')", "up/a.png"),
        ("os.mkfifo(out + '/a.png')", "a.png"),
        ("os.mkdir(out + '/a.png')", "a.png"),
        ("open('/workspace/a.png', 'wb').write(PNG)", "../a.png"),
        ("open('/workspace/a.png', 'wb').write(PNG)", "/workspace/a.png"),
        ("open(out + '/b.png', 'wb').write(PNG); os.link(out + '/b.png', out + '/a.png')", "a.png"),
        ("pass", "gone.png"),
    ],
)
def test_nothing_else_is_read_as_an_image(daemon: Daemon, make: str, path: str) -> None:
    source = f"""
    PNG = {PNG!r}
    out = json.load(sys.stdin)["context"]["outputDir"]
    {make}
    print(json.dumps({{"content": [
        {{"type": "image", "mimeType": "image/png", "path": {path!r}}}]}}))
    """
    reply = call(daemon, source)
    assert reply.kind is ReplyKind.PROTOCOL_ERROR


def test_an_error_that_a_program_states_is_passed_on(daemon: Daemon) -> None:
    source = """
    print(json.dumps({"isError": True, "content": [
        {"type": "text", "text": "Choose a smaller range."}]}))
    """
    reply = call(daemon, source)
    assert (reply.kind, reply.message) == (ReplyKind.STATED, "Choose a smaller range.")


@pytest.mark.parametrize(
    ("size", "kind"), [(64 * 1024, ReplyKind.STATED), (64 * 1024 + 1, ReplyKind.PROTOCOL_ERROR)]
)
def test_a_stated_error_is_one_text_of_at_most_64_kib(
    daemon: Daemon, size: int, kind: ReplyKind
) -> None:
    source = f"""
    print(json.dumps({{"isError": True, "content": [{{"type": "text", "text": "x" * {size}}}]}}))
    """
    reply = call(daemon, source)
    assert reply.kind is kind
    if kind is ReplyKind.STATED:
        assert reply.message == "x" * size


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("sys.stderr.write('secret'); sys.exit(3)", ReplyKind.CRASHED),
        ("os.kill(os.getpid(), 11)", ReplyKind.CRASHED),
        ("print('{')", ReplyKind.PROTOCOL_ERROR),
        ("print('{}'); sys.stderr.write('secret')", ReplyKind.PROTOCOL_ERROR),
        ('print(\'{"content":[{"type":"text","text":"a"}]}{}\')', ReplyKind.PROTOCOL_ERROR),
        ("import time; time.sleep(60)", ReplyKind.TIMEOUT),
    ],
)
def test_every_other_end_is_an_error_without_what_was_printed(
    daemon: Daemon, source: str, kind: ReplyKind
) -> None:
    reply = call(daemon, source, timeout_ms=3_000)
    assert reply.kind is kind
    assert "secret" not in repr(reply)
    assert reply.message


def test_a_large_result_arrives_whole(daemon: Daemon) -> None:
    source = """
    block = {"type": "json", "data": "x" * 500_000}
    print(json.dumps({"content": [block] * 15}))
    """
    reply = call(daemon, source)
    assert reply.kind is ReplyKind.VALUE, reply.message
    assert len(reply.value["content"]) == 15  # type: ignore[index,arg-type,call-overload]


def test_a_program_that_cannot_be_started_says_so(daemon: Daemon) -> None:
    reply = call(daemon, command="no-such-program", pins=())
    assert reply.kind is ReplyKind.CRASHED
    assert "could not be started" in reply.message


def test_arguments_of_a_plain_program_are_never_read_by_a_shell(daemon: Daemon) -> None:
    source = "sys.stdout.write(repr(sys.argv[1:]) + repr(sys.stdin.read()))"
    reply = call(
        daemon,
        source,
        "{query}",
        "--n={n}",
        "{{literal}}",
        protocol=Protocol.PLAIN,
        arguments={"query": "$(id); {n} 'x' \"y\" `z`", "n": {"a": [1, None]}},
    )
    assert text_of(reply) == repr(
        ["$(id); {n} 'x' \"y\" `z`", '--n={"a":[1,null]}', "{literal}"]
    ) + repr("")


def test_what_a_plain_program_prints_is_cleaned_and_bounded(daemon: Daemon) -> None:
    source = "sys.stdout.buffer.write(b'\\x1b[31mred\\x1b[0m\\xff' + b'y' * 200_000)"
    text = text_of(call(daemon, source, protocol=Protocol.PLAIN))
    assert text.startswith("red\ufffdyyy")
    assert text.endswith("is left out]")
    assert len(text.encode()) <= 64 * 1024


@pytest.mark.parametrize("code", [1, 126, 127])
def test_a_plain_program_that_fails_says_what_it_printed(daemon: Daemon, code: int) -> None:
    source = f"print('no match'); sys.stderr.write('secret'); sys.exit({code})"
    reply = call(daemon, source, protocol=Protocol.PLAIN)
    assert (reply.kind, reply.message, reply.exit_code) == (ReplyKind.CRASHED, "no match\n", code)
    assert "secret" not in repr(reply)


def test_what_cannot_be_passed_on_is_refused_before_anything_starts(daemon: Daemon) -> None:
    missing = call(daemon, "", "{query}", protocol=Protocol.PLAIN)
    nul = call(daemon, "", "{q}", protocol=Protocol.PLAIN, arguments={"q": "a\0b"})
    assert missing.kind is nul.kind is ReplyKind.BAD_REQUEST
    assert missing.stats == nul.stats == type(missing.stats)()


def test_what_cannot_be_pinned_keeps_everything_from_running(daemon: Daemon) -> None:
    reply = call(daemon, ECHO, pins=("tools", "gone"))
    assert reply.kind is ReplyKind.UNPREPARED
    assert reply.message.startswith("PREPARATION_FAILED: ")
    scope = Artifact("x", ArtifactKind.FILE, "gone.md")
    assert call(daemon, ECHO, scope=scope, pins=()).kind is ReplyKind.UNPREPARED


def test_a_shorter_deadline_than_asked_for_is_recorded(daemon: Daemon) -> None:
    reply = call(daemon, ECHO, timeout_ms=500_000, deadline_s=20)
    assert [(one.name, one.asked, one.given) for one in reply.clamped] == [
        ("timeout_ms", 500_000, 240_000)
    ]
    assert call(daemon, ECHO, timeout_ms=20_000, deadline_s=10).clamped == ()
    more = call(daemon, ECHO, limits=Limits(memory_mb=9_000, cpu_ms=900_000)).clamped
    assert [(one.name, one.asked) for one in more] == [("cpu_ms", 900_000), ("memory_mb", 9_000)]


def test_calls_leave_nothing_for_one_another(daemon: Daemon) -> None:
    source = """
    context = json.load(sys.stdin)["context"]
    found = [os.listdir(context[name]) for name in ("outputDir", "tmpDir")]
    for name in ("outputDir", "tmpDir"):
        open(context[name] + "/left", "w").close()
    print(json.dumps({"content": [{"type": "json", "data": found}]}))
    """
    for _ in range(2):
        reply = call(daemon, source)
        assert reply.value == {"content": [{"type": "json", "data": [[], []]}]}


def test_a_program_has_the_libraries_only_in_the_runtime_that_it_asked_for(
    daemon: Daemon,
) -> None:
    source = """
    import importlib.util
    print(importlib.util.find_spec("openpyxl") is not None)
    """
    for runtimes, there in (((), "False"), (("office",), "True")):
        reply = call(daemon, source, protocol=Protocol.PLAIN, runtimes=runtimes)
        assert text_of(reply).strip() == there
