"""Dependencies come from a registry that proves who it is, and from nobody whom it points to."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from apps.domain.entries import NodeEntry
from apps.domain.lockfiles import Dependencies, dependencies_of
from apps.sandbox import dependencies
from apps.sandbox.dependencies import install
from apps.sandbox.errors import DependenciesMissing
from apps.sandbox.node import call_node_tool
from apps.sandbox.store import Store
from tests.factories import locks
from tests.factories.registry import Registry
from tests.sandboxd.outside import NamedDaemon, Names, certified

pytestmark = pytest.mark.sandbox

HOST, OTHER = "registry.kaizen.example", "mirror.kaizen.example"
TOOL = b'import { who } from "alpha";\nexport const tell = () => who;\n'


@pytest.fixture(scope="module")
def machine(sandbox_home: Path) -> Iterator[tuple[NamedDaemon, Path]]:
    """A supervisor with a store, on a machine that knows where registry and mirror are."""
    folder = Path(tempfile.mkdtemp(prefix="tls-", dir=sandbox_home))
    folder.chmod(0o755)
    names = Names(folder)
    for name in (HOST, OTHER):
        names.add(name, "127.0.0.1")
    daemon = NamedDaemon(sandbox_home, "--store", str(folder / "made"), names=names)
    yield daemon, folder
    daemon.remove()


@pytest.fixture
def registry(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry whose authority this machine trusts."""
    context, authority = certified(tmp_path, HOST)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    one = Registry(context)
    settings.KAIZEN_NPM_REGISTRY = f"https://{HOST}:{one.port}/npm"
    settings.PKG_RUNNER_OFFLINE = False
    yield one
    one.close()


@pytest.fixture
def store(machine: tuple[NamedDaemon, Path]) -> Store:
    return Store(machine[1] / "made")


def needs(one: locks.Published) -> Dependencies:
    return dependencies_of(locks.needing("mine", {one.name: one}))


def place(one: locks.Published) -> str:
    """Where the registry has it, below the address that is configured."""
    return f"/npm{one.path}"


def put(
    one: locks.Published, machine: tuple[NamedDaemon, Path], store: Store, seconds: float = 60
) -> str:
    return install(needs(one), deadline_s=seconds, path=machine[0].socket, store=store)


def refused(
    one: locks.Published, machine: tuple[NamedDaemon, Path], store: Store, seconds: float = 60
) -> str:
    with pytest.raises(DependenciesMissing) as missing:
        put(one, machine, store, seconds)
    assert not store.has(needs(one).digest)
    assert not [left for left in store.folder.iterdir() if left.name.startswith(".draft")]
    return missing.value.message


def test_an_exact_lock_is_installed_and_loaded(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    alpha = locks.published("alpha")
    registry.archives[place(alpha)] = alpha.archive
    digest = put(alpha, machine, store)
    assert registry.asked == [place(alpha)]
    reply = call_node_tool(
        tree=locks.needing("mine", {"alpha": alpha}, **{"tool.mjs": TOOL}),
        entry=NodeEntry("tool.mjs", "tell"), arguments={}, dependencies=digest, deadline_s=30,
        path=machine[0].socket,
    )  # fmt: skip
    assert reply.value == "alpha@1.0.0", reply


def test_other_bytes_than_the_lock_names_are_refused(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    alpha = locks.published("swapped")
    registry.archives[place(alpha)] = locks.published("swapped", "6.6.6").archive
    assert "not the bytes that the lock file names" in refused(alpha, machine, store)


@pytest.mark.parametrize("whose", ["of another authority", "of another name"])
def test_a_registry_that_does_not_prove_who_it_is_gives_nothing(
    machine: tuple[NamedDaemon, Path],
    registry: Registry,
    store: Store,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whose: str,
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    context, authority = certified(folder, HOST if whose == "of another authority" else OTHER)
    if whose == "of another name":
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    impostor = Registry(context)
    settings.KAIZEN_NPM_REGISTRY = f"https://{HOST}:{impostor.port}/npm"
    alpha = locks.published("trusted")
    impostor.archives[place(alpha)] = alpha.archive
    said = refused(alpha, machine, store)
    impostor.close()
    assert "certificate verify failed" in said
    assert impostor.asked == []


def test_where_a_registry_points_to_nobody_asks(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    mirror, alpha = Registry(), locks.published("elsewhere")
    mirror.archives[alpha.path] = alpha.archive

    def point(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"http://{OTHER}:{mirror.port}{alpha.path}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    registry.instead[place(alpha)] = point
    said = refused(alpha, machine, store)
    mirror.close()
    assert "elsewhere@1.0.0 could not be fetched" in said
    assert "answered 302" in said
    assert mirror.asked == []


def test_an_archive_above_its_bound_is_given_up(
    machine: tuple[NamedDaemon, Path],
    registry: Registry,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dependencies, "MAX_ARCHIVE_BYTES", 4_000)
    alpha = locks.published("huge")

    def pour(handler: BaseHTTPRequestHandler) -> None:
        # Without a length: nobody is told beforehand how much will come.
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        for _ in range(2_000):
            handler.wfile.write(bytes(4_096))

    registry.instead[place(alpha)] = pour
    assert "larger than 4,000 bytes" in refused(alpha, machine, store)


def test_a_body_that_never_ends_is_ended_by_the_deadline(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    alpha, over = locks.published("dripping"), threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(alpha.archive)))
        handler.end_headers()
        handler.wfile.write(alpha.archive[:-1])
        over.wait(60)

    registry.instead[place(alpha)] = drip
    said = refused(alpha, machine, store, seconds=4)
    over.set()
    assert "ended with wall_timeout" in said or "not installed in time" in said
