"""A package's declared session serves its bound tools, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from apps.domain.entries import CommandEntry, Program, Protocol
from apps.domain.scoping import Artifact, ArtifactKind
from apps.domain.sessions import SESSION_VARIABLE, SessionDeclaration
from apps.runs.models import Run
from apps.sandbox.client import Limits
from apps.sandbox.commands import Bench, call_command_tool
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.sandbox.sessioned import started_in
from apps.sandbox.sessions import close_sessions
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room
from tests.sandboxd.daemon import Daemon

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]

SCOPE = Artifact("app", ArtifactKind.FOLDER, "")
HEAD = "#!/usr/bin/env python\nimport json, os, sys, time\n"
PLACE = f"place = os.environ[{SESSION_VARIABLE!r}]\n"
TREE = {
    "package.json": b"{}",
    "tools/serve": (
        HEAD + PLACE + "asked = json.load(sys.stdin)\n"
        "open(place + '/started', 'a').write(json.dumps(asked['args']) + ' '.join(sys.argv[1:]))\n"
        "print('ready', flush=True)\ntime.sleep(600)\n"
    ).encode(),
    "tools/look": (
        HEAD + PLACE + "asked = json.load(sys.stdin)\n"
        "said = open(place + '/started').read() + ' ' + asked['args']['word']\n"
        "print(json.dumps({'content': [{'type': 'text', 'text': said}]}))\n"
    ).encode(),
    "tools/tell": (
        HEAD + PLACE + "print(os.path.exists(place + '/started'), sys.argv[1])\n"
    ).encode(),
    "tools/halt": (
        HEAD + PLACE + "sys.exit(0 if os.path.exists(place + '/started') else 9)\n"
    ).encode(),
}
SESSION = SessionDeclaration(
    "server", Program("tools/serve", ("--once",)), Program("tools/halt"), "app"
)


@pytest.fixture
def run() -> Run:
    member = make_member()
    agent = make_agent(member)
    return claimed_run(make_room(member, agent), agent, member)


def call(run: Run, daemon: Daemon, entry: CommandEntry, arguments: dict[str, Any]) -> ToolReply:
    bench = Bench(TREE, SCOPE, Limits(), 30, path=daemon.socket, published="look_app")
    start = started_in(SESSION, scope=SCOPE, run_id=run.pk, package="app@1.0.0")
    return call_command_tool(entry, arguments, bench, session=SESSION, start=start)


def text_of(reply: ToolReply) -> str:
    assert reply.kind is ReplyKind.VALUE, reply
    return str(reply.value["content"][0]["text"])  # type: ignore[call-overload, index]


def test_both_protocols_reach_the_one_program_of_their_session(run: Run, daemon: Daemon) -> None:
    look = CommandEntry(Protocol.JSON, Program("tools/look"), session="server")
    tell = CommandEntry(Protocol.PLAIN, Program("tools/tell", ("{word}",)), session="server")
    assert text_of(call(run, daemon, look, {"word": "one"})) == "{}--once one"
    assert text_of(call(run, daemon, tell, {"word": "two"})).split() == ["True", "two"]
    # Still started once; and its stop command finds what the program left.
    assert text_of(call(run, daemon, look, {"word": "three"})) == "{}--once three"
    close_sessions(run_id=run.pk, path=daemon.socket)
    over = call(run, daemon, look, {"word": "four"})
    assert over.kind is ReplyKind.UNAVAILABLE
    assert "ended" in over.message
