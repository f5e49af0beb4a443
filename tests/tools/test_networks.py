"""A package's tool gets the network that it asks for, and the audit trail tells what it tried."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apps.domain.egress import Crossing
from apps.domain.manifests import parse_manifest
from apps.domain.tooling import ToolOk
from apps.packages.models import PackageVersion
from apps.sandbox.commands import _judge_run
from apps.sandbox.errors import SessionOver
from apps.sandbox.runner import ReplyKind
from apps.sandbox.spec import Reason as SandboxReason
from apps.sandbox.spec import SandboxResult
from apps.tools import filetools
from apps.tools.declared import network_allowed
from apps.tools.packaged import _result, as_tool, call_packaged
from apps.tools.provenance import MAX_TOLD, _crossed
from tests.factories import packages as made
from tests.sandboxd.daemon import make_home
from tests.sandboxd.outside import NamedDaemon, Names, Upstream, say

CODE = b"""
import socket


def convert(arguments):
    found = []
    for host, port in arguments["asked"]:
        try:
            with socket.create_connection((host, port), 5) as link:
                link.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
                found.append(b"hello" in link.recv(4096))
        except OSError:
            found.append(False)
    return {"found": found}
"""


@pytest.fixture(scope="module")
def named() -> Iterator[NamedDaemon]:
    """A supervisor whose resolver is ours."""
    home = make_home()
    folder = Path(tempfile.mkdtemp(prefix="kaizen-names-", dir="/var/tmp"))
    names = Names(folder)
    names.add("api.kaizen.example", "127.0.0.1")
    daemon = NamedDaemon(home, names=names)
    yield daemon
    daemon.remove()
    shutil.rmtree(folder)
    shutil.rmtree(home)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A server outside."""
    one = Upstream(say(b"hello"))
    yield one
    one.close()


def definition(**changes: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"asked": {"type": "array", "items": {"type": "array", "items": {}}}},
    }
    return made.definition(**{"input": schema, **changes})


def called(named: NamedDaemon, asked: list[Any], **changes: Any) -> Any:
    manifest = parse_manifest(made.manifest("weather", "1.0.0", definition(**changes)))
    tree = made.tree(weather_py=CODE)
    return manifest.tools[0], call_packaged(
        manifest.tools[0], manifest, tree, {"asked": asked}, deadline_s=30, path=named.socket
    )


@pytest.mark.sandbox
def test_a_tool_reaches_the_hosts_that_were_reviewed_and_the_trail_tells(
    named: NamedDaemon, upstream: Upstream
) -> None:
    network = {"kind": "allowlist", "hosts": [f"api.kaizen.example:{upstream.port}"]}
    asked = [["api.kaizen.example", upstream.port], ["other.example", upstream.port]]
    tool, reply = called(named, asked, network=network)
    assert (reply.kind, reply.value) == (ReplyKind.VALUE, {"found": [True, False]})
    result = _result(reply, tool, tool.specification())
    assert isinstance(result, ToolOk)
    told = result.provenance["network"]["tried"]
    assert {(one["host"], one["verdict"]) for one in told} == {
        ("api.kaizen.example", "allowed"),
        ("other.example", "host_not_listed"),
    }
    allowed = next(one for one in told if one["verdict"] == "allowed")
    assert (allowed["port"], allowed["addresses"]) == (upstream.port, ["127.0.0.1"])


@pytest.mark.sandbox
def test_a_tool_that_asks_for_none_reaches_nobody(named: NamedDaemon, upstream: Upstream) -> None:
    _, reply = called(named, [["api.kaizen.example", upstream.port]])
    assert reply.value == {"found": [False]}
    assert reply.crossings == ()
    assert upstream.reached == 0


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("network", "allowed", "may"),
    [
        ({"kind": "none"}, {"none"}, True),
        ({"kind": "allowlist", "hosts": ["a.example"]}, {"none", "allowlist"}, True),
        ({"kind": "allowlist", "hosts": ["a.example"]}, {"none"}, False),
        ({"kind": "unrestricted"}, {"none", "allowlist"}, False),
        ({"kind": "unrestricted"}, {"none", "allowlist", "unrestricted"}, True),
    ],
)
def test_the_deployment_says_which_networks_packages_may_have(
    network: dict[str, Any],
    allowed: set[str],
    may: bool,
    settings: Any,
    admit: Callable[[dict[str, Any]], PackageVersion],
) -> None:
    settings.KAIZEN_PACKAGE_NETWORKS = frozenset(allowed)
    raw = made.manifest("weather", "1.0.0", definition(network=network))
    assert network_allowed(parse_manifest(raw).tools[0].network) is may
    tool = as_tool(admit(raw).tools.get())
    assert tool is not None
    assert (tool.unfit == "") is may


@pytest.fixture
def admit() -> Callable[[dict[str, Any]], PackageVersion]:
    from apps.accounts.models import User
    from apps.packages.services import publish_package
    from tests.factories.rooms import make_member

    def publish(raw: dict[str, Any]) -> PackageVersion:
        ines = User.objects.create_superuser("ines", password="x")
        return publish_package(
            manifest=parse_manifest(raw),
            files=made.tree(),
            author=make_member("mara"),
            admitted_by=ines,
        )

    return publish


def test_what_a_call_reached_is_written_down_before_what_it_was_refused() -> None:
    refused = [Crossing(f"h{n}.example", 0, "", "host_not_listed") for n in range(2 * MAX_TOLD)]
    little = Crossing("a.example", 443, "203.0.114.1", "allowed", 1, 10)
    much = Crossing("b.example", 443, "203.0.114.2", "allowed", 1, 9_000)
    told = _crossed([*refused, little, much])
    assert [one["host"] for one in told["tried"][:3]] == ["b.example", "a.example", "h0.example"]
    assert told["more"] == 2 * MAX_TOLD + 2 - MAX_TOLD


REACHED = Crossing("a.example", 443, "203.0.114.1", "allowed", 1, 10)


def test_a_call_that_ends_its_session_tells_what_it_reached() -> None:
    over = SessionOver("The session ended. Its program is gone.")
    over.crossings = (REACHED,)

    def start(*_: Any) -> SandboxResult:
        raise over

    entry: Any = SimpleNamespace(program=None, session="render")
    bench: Any = None
    assert _judge_run(entry, (), b"", bench, start).crossings == (REACHED,)


def test_a_program_that_is_asked_for_its_help_tells_what_it_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = SandboxResult(SandboxReason.OK, exit_code=0, crossings=(REACHED,))
    monkeypatch.setattr(filetools, "check_targets", lambda *_: None)
    monkeypatch.setattr(filetools, "run_program", lambda *_: ended)
    entry: Any = SimpleNamespace(args=("render",))
    bench: Any = SimpleNamespace(scope=None, tree={})
    assert filetools._help(entry, bench).crossings == (REACHED,)
