"""Tools of a session share one program for the length of a run, and nothing with another run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.models import User
from apps.domain.archives import MANIFEST_NAME
from apps.domain.manifests import Manifest, parse_manifest
from apps.packages.services import publish_package
from apps.runs.models import Run
from apps.sandbox.models import ToolSession
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.sandbox.session_ends import close_sessions
from apps.sandbox.sessions import session_of_run
from apps.tools.packaged import as_tool, call_packaged
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]

HARNESS = b"""#!/usr/bin/env python
import json, os, sys, time
place = os.environ["ARTIFACTIZE_SESSION_DIR"]
request = json.load(sys.stdin) if sys.argv[1] != "peek" else {}
if sys.argv[1] == "start":
    if not request["args"] == {} or "outputDir" not in request["context"]:
        sys.exit(9)
    open(place + "/count", "w").write("0")
    print("whatever", flush=True)
    while not os.path.exists(place + "/die"):
        time.sleep(0.02)
    sys.exit(4)
elif sys.argv[1] == "act":
    if request["args"].get("die"):
        open(place + "/die", "w").close()
        time.sleep(20)
    count = int(open(place + "/count").read()) + 1
    open(place + "/count", "w").write(str(count))
    left = os.listdir(request["context"]["outputDir"])
    open(request["context"]["outputDir"] + "/left", "w").close()
    block = {"type": "json", "data": {"count": count, "left": left}}
    print(json.dumps({"content": [block]}))
elif sys.argv[1] == "peek":
    print(open(place + "/count").read())
"""
TREE = {"package.json": b'{"name": "app", "version": "1.0.0"}', "tools/harness": HARNESS}


def raw_manifest(start: str = "start", stop: str = "stop") -> dict[str, Any]:
    def tool(name: str, protocol: str, args: list[str]) -> dict[str, Any]:
        return {
            "definition": {
                "id": f"app.{name}",
                "description": "Act.",
                "version": "1.0.0",
                "input": {"type": "object"},
                "output": {"type": "object"},
            },
            "entry": {
                "protocol": protocol,
                "command": "tools/harness",
                "args": args,
                "session": "live",
                "execution_paths": ["tools/harness"],
            },
        }

    return {
        "name": "app",
        "version": "1.0.0",
        "ref": "app@1.0.0",
        "format": "python",
        "tools": [tool("act", "json", ["act"]), tool("peek", "plain", ["peek"])],
        "sessions": {
            "live": {
                "start": {
                    "command": "tools/harness",
                    "args": [start],
                    "execution_paths": ["tools"],
                },
                "stop": {"command": "tools/harness", "args": [stop]},
            }
        },
    }


def manifest(start: str = "start") -> Manifest:
    return parse_manifest(raw_manifest(start))


@pytest.fixture
def member() -> User:
    return make_member("mara")


@pytest.fixture
def begun(member: User) -> Callable[[], Run]:
    agent = make_agent(member, slug="scribe")
    return lambda: claimed_run(make_room(member, agent), agent, member)


def call(
    daemon: Daemon, run: Run | None, tool: str = "pkg_act_app", start: str = "start", **args: Any
) -> ToolReply:
    read = manifest(start)
    declared = read.tool(tool)
    assert declared is not None
    return call_packaged(
        declared,
        read,
        TREE,
        args,
        deadline_s=20,
        path=daemon.socket,
        sessions=None if run is None else session_of_run(run.pk),
    )


def data(reply: ToolReply) -> Any:
    assert reply.kind is ReplyKind.VALUE, reply
    return reply.value["content"][0]["data"]  # type: ignore[index,call-overload]


def test_bound_calls_share_a_program_and_its_folder_and_keep_their_own_output(
    daemon: Daemon, begun: Callable[[], Run]
) -> None:
    first, second = begun(), begun()
    assert not ToolSession.objects.exists()
    reply = call(daemon, first)
    assert data(reply) == {"count": 1, "left": []}
    assert {name: set(pins) for name, pins in reply.pins.items()} == {
        "act_app": {"tools/harness"},
        "live_app.start": {"tools"},
    }
    assert data(call(daemon, first)) == {"count": 2, "left": []}
    assert data(call(daemon, second)) == {"count": 1, "left": []}
    peeked = call(daemon, first, "pkg_peek_app")
    assert peeked.value == {"content": [{"type": "text", "text": "2\n"}]}
    for run in (first, second):
        close_sessions(run_id=run.pk, path=daemon.socket)
    over = call(daemon, first)
    assert over.kind is ReplyKind.STATED
    assert "ended" in over.message


def test_a_session_that_ends_takes_its_call_along_and_stays_ended(
    daemon: Daemon, begun: Callable[[], Run]
) -> None:
    run = begun()
    data(call(daemon, run))
    ended = call(daemon, run, die=True)
    again = call(daemon, run)
    assert ended.kind is again.kind is ReplyKind.STATED
    assert "session live ended" in ended.message
    assert "session live ended" in again.message
    close_sessions(run_id=run.pk, path=daemon.socket)


def test_a_session_that_does_not_start_says_the_same_every_time(
    daemon: Daemon, begun: Callable[[], Run]
) -> None:
    run = begun()
    first, second = call(daemon, run, start="peek"), call(daemon, run, start="peek")
    assert first.kind is second.kind is ReplyKind.STATED
    assert first.message == second.message
    close_sessions(run_id=run.pk, path=daemon.socket)


def test_outside_of_a_run_nothing_is_started(daemon: Daemon, member: User) -> None:
    reply = call(daemon, None)
    assert reply.kind is ReplyKind.BAD_REQUEST
    assert not ToolSession.objects.exists()


@pytest.mark.parametrize(("stop", "code"), [("stop", 0), ("none", 1)])
def test_a_check_calls_a_bound_tool_in_a_session_of_its_own(
    another_daemon: Callable[..., Daemon],
    tmp_path: Path,
    settings: Any,
    capsys: pytest.CaptureFixture[str],
    stop: str,
    code: int,
) -> None:
    daemon = another_daemon()
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    for name, content in TREE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(
            content + b"if sys.argv[1] == 'none': sys.exit(6)\n" * (name[0] == "t")
        )
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(raw_manifest(stop=stop)))
    words = ["--execute", "--tool", "pkg_act_app", "--args", "{}"]
    ended = 0
    try:
        call_command("tools", "check", str(tmp_path), *words)
    except SystemExit as left:
        ended = int(left.code or 0)
    execution = json.loads(capsys.readouterr().out)["execution"]
    assert ended == code
    if code:
        # What the call itself came to does not matter any more.
        assert (execution["ok"], execution["outcome"]) == (False, "cleanup")
        assert "exit code 6" in execution["message"]
    else:
        assert execution["value"]["content"][0]["data"] == {"count": 1, "left": []}
    assert daemon.quiet()
    assert not ToolSession.objects.exists()
    assert not Run.objects.exists()


def test_a_call_of_a_bound_tool_goes_to_the_machine_where_its_session_lives(
    member: User, begun: Callable[[], Run]
) -> None:
    version = publish_package(
        manifest=parse_manifest(raw_manifest()),
        files=TREE,
        author=member,
        admitted_by=make_member("keeper"),
    )
    run = begun()
    bound = as_tool(version.tools.get(name="pkg_act_app"))
    assert bound is not None
    assert bound.home is not None
    assert bound.home({}, run) == ""
    ToolSession.objects.create(run=run, name="live_app app@1.0.0", node="another")
    assert bound.home({}, run) == "another"
