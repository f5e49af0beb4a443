"""How do a package's dependencies come to be there, and what keeps them from it?"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from apps.domain.entries import NodeEntry
from apps.domain.lockfiles import Dependencies, dependencies_of
from apps.sandbox.dependencies import install
from apps.sandbox.errors import DependenciesMissing
from apps.sandbox.node import call_node_tool
from apps.sandbox.store import PINS, REST_SECONDS, Store, read_pins
from tests.factories import locks
from tests.factories.registry import Registry
from tests.sandboxd.outside import NamedDaemon, Names

pytestmark = pytest.mark.sandbox

HOST = "registry.kaizen.example"
ALPHA, BETA = locks.published("alpha"), locks.published("@scope/beta", "2.1.0")
OLD_ALPHA = locks.published("alpha", "0.9.0")
NEEDS = {"alpha": ALPHA, "@scope/beta": BETA, "@scope/beta/node_modules/alpha": OLD_ALPHA}
TOOL = b"""import { who } from "alpha";
import { who as beta } from "@scope/beta";
export const tell = () => [who, beta];
"""


@pytest.fixture(scope="module")
def machine(sandbox_home: Path) -> Iterator[tuple[NamedDaemon, Path]]:
    """A supervisor with a store, on a machine that knows where the registry is."""
    folder = Path(tempfile.mkdtemp(prefix="store-", dir=sandbox_home))
    folder.chmod(0o755)
    names = Names(folder)
    names.add(HOST, "127.0.0.1")
    daemon = NamedDaemon(
        sandbox_home, "--store", str(folder / "made"), "--store", str(folder / "brought"),
        names=names,
    )  # fmt: skip
    yield daemon, folder
    daemon.remove()


@pytest.fixture
def registry(settings: Any) -> Iterator[Registry]:
    one = Registry()
    settings.KAIZEN_NPM_REGISTRY = f"http://{HOST}:{one.port}"
    settings.PKG_RUNNER_OFFLINE = False
    yield one
    one.close()


@pytest.fixture
def store(machine: tuple[NamedDaemon, Path]) -> Store:
    return Store(machine[1] / "made", machine[1] / "brought")


def needed(needs: dict[str, locks.Published]) -> Dependencies:
    return dependencies_of(locks.needing("mine", needs))


def put(needs: dict[str, locks.Published], machine: tuple[NamedDaemon, Path], store: Store) -> str:
    return install(needed(needs), deadline_s=60, path=machine[0].socket, store=store)


def unique(name: str, **files: bytes) -> dict[str, locks.Published]:
    """A need that no other test has."""
    return {name: locks.published(name, "1.0.0", files)}


def test_a_tool_finds_exactly_what_its_lock_names(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    registry.publish(ALPHA, BETA, OLD_ALPHA)
    digest = put(NEEDS, machine, store)
    inside = store.folder / digest / "node_modules"
    assert (inside / "@scope/beta/node_modules/alpha/index.js").read_bytes() != (
        inside / "alpha/index.js"
    ).read_bytes()
    reply = call_node_tool(
        tree=locks.needing("mine", NEEDS, **{"tool.mjs": TOOL}),
        entry=NodeEntry("tool.mjs", "tell"),
        arguments={},
        dependencies=digest,
        deadline_s=30,
        path=machine[0].socket,
    )
    assert reply.value == ["alpha@1.0.0", "@scope/beta@2.1.0"], reply


def test_the_tree_is_installed_once_and_by_one(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    needs = unique("gamma") | unique("delta")
    registry.publish(*needs.values())
    digests: list[str] = []
    both = [
        threading.Thread(target=lambda: digests.append(put(needs, machine, store)))
        for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert len(digests) == 2
    assert len(registry.asked) == 2
    put(needs, machine, store)
    assert len(registry.asked) == 2
    assert [one.name for one in store.folder.iterdir() if one.name.startswith(".draft")] == []


def test_a_tool_cannot_change_what_others_will_load(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    needs = unique("steady")
    registry.publish(*needs.values())
    source = b"""import fs from "node:fs";
export const tell = () => {
  try { fs.writeFileSync("/node_modules/steady/index.js", ""); } catch (e) { return e.code; }
};"""
    reply = call_node_tool(
        tree=locks.needing("mine", needs, **{"tool.mjs": source}),
        entry=NodeEntry("tool.mjs", "tell"),
        arguments={},
        dependencies=put(needs, machine, store),
        deadline_s=30,
        path=machine[0].socket,
    )
    assert reply.value == "EROFS"


def test_other_bytes_than_the_lock_names_are_refused(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    needs = unique("swapped")
    registry.archives[needs["swapped"].path] = locks.published("swapped", "6.6.6").archive
    with pytest.raises(DependenciesMissing, match="not the bytes that the lock file names"):
        put(needs, machine, store)
    assert not store.has(needed(needs).digest)


def test_an_archive_that_would_leave_its_place_is_refused(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    for archive in (locks.archive({}, links=("x",)), locks.archive({"../../x": b"1"})):
        one = locks.Published("leaving", "1.0.0", archive)
        registry.publish(one)
        with pytest.raises(DependenciesMissing, match=r"leaving@1\.0\.0"):
            put({"leaving": one}, machine, store)


def test_nothing_of_a_dependency_runs_when_it_is_installed(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    scripts = b'{"name": "scripted", "version": "1.0.0", "scripts": {"postinstall": "touch /x"}}'
    one = locks.Published(
        "scripted", "1.0.0",
        locks.archive({"package.json": scripts, "binding.gyp": b"{}", ".npmrc": b"script-shell=x"}),
    )  # fmt: skip
    registry.publish(one)
    digest = put({"scripted": one}, machine, store)
    found = sorted(path.name for path in (store.folder / digest).rglob("*") if path.is_file())
    assert found == [".npmrc", "binding.gyp", "package.json"]
    assert registry.asked == [one.path]


def test_offline_an_install_is_refused_at_once(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store, settings: Any
) -> None:
    there, absent = unique("there"), unique("absent")
    registry.publish(*there.values(), *absent.values())
    put(there, machine, store)
    asked = len(registry.asked)
    settings.PKG_RUNNER_OFFLINE = True
    assert put(there, machine, store)
    with pytest.raises(DependenciesMissing, match="PKG_RUNNER_OFFLINE"):
        put(absent, machine, store)
    assert len(registry.asked) == asked


def test_without_a_registry_an_install_is_refused(
    machine: tuple[NamedDaemon, Path], store: Store, settings: Any
) -> None:
    settings.KAIZEN_NPM_REGISTRY = ""
    with pytest.raises(DependenciesMissing, match="KAIZEN_NPM_REGISTRY"):
        put(unique("nowhere"), machine, store)


def test_what_the_deployment_brings_is_never_installed(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    needs = unique("brought")
    registry.publish(*needs.values())
    digest = needed(needs).digest
    pinned = Store(store.folder, store.bundled, frozenset({digest}))
    with pytest.raises(DependenciesMissing, match="belong to the deployment"):
        put(needs, machine, pinned)
    assert registry.asked == []
    put(needs, machine, store)
    brought = machine[1] / "brought"
    brought.mkdir()
    (store.folder / digest).rename(brought / digest)
    assert put(needs, machine, pinned) == digest


def test_the_pins_of_this_clone_can_be_read() -> None:
    assert read_pins(PINS.read_text()) == frozenset()
    assert read_pins(f"# words\n{'a' * 64}  # of a package\n") == {"a" * 64}
    with pytest.raises(ValueError, match="no content address"):
        read_pins("alpha@1.0.0")


def test_what_the_registry_does_not_have_is_named(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    with pytest.raises(DependenciesMissing, match=r"lost@1\.0\.0 could not be fetched.*404"):
        put(unique("lost"), machine, store)


def test_a_registry_leads_nobody_elsewhere(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    needs = unique("moved")
    there = Registry()
    there.publish(*needs.values())

    def leads_away(asked: BaseHTTPRequestHandler) -> None:
        asked.send_response(302)
        asked.send_header("Location", f"http://{HOST}:{there.port}{asked.path}")
        asked.send_header("Content-Length", "0")
        asked.end_headers()

    registry.instead[needs["moved"].path] = leads_away
    with pytest.raises(DependenciesMissing, match="answered 302"):
        put(needs, machine, store)
    assert there.asked == []
    there.close()


def test_only_what_fits_this_machine_is_fetched(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    native, other = locks.published("native"), locks.published("other")
    registry.publish(native)
    files = locks.needing("mine", {"native": native})
    lock = locks.lock(
        "mine", {"native": native},
        **{"node_modules/other": other.locked(os=["darwin"], optional=True)},
    )  # fmt: skip
    digest = install(
        dependencies_of(files | {"package-lock.json": lock}), deadline_s=60,
        path=machine[0].socket, store=store,
    )  # fmt: skip
    assert sorted(os.listdir(store.folder / digest / "node_modules")) == ["native"]
    lock = locks.lock(
        "mine", {"native": native}, **{"node_modules/other": other.locked(cpu=["!x64", "!arm64"])}
    )
    with pytest.raises(DependenciesMissing, match=r"other@1\.0\.0 does not work"):
        install(
            dependencies_of(files | {"package-lock.json": lock}), deadline_s=60,
            path=machine[0].socket, store=store,
        )  # fmt: skip


def test_many_archives_come_in_lots(
    machine: tuple[NamedDaemon, Path], registry: Registry, store: Store
) -> None:
    needs: dict[str, locks.Published] = {}
    for number in range(60):
        needs |= unique(f"one-of-{number}")
    registry.publish(*needs.values())
    digest = put(needs, machine, store)
    assert len(os.listdir(store.folder / digest / "node_modules")) == 60
    assert len(registry.asked) == 60


def test_a_job_whose_tree_is_gone_does_not_start(machine: tuple[NamedDaemon, Path]) -> None:
    reply = call_node_tool(
        tree={"package.json": b"{}", "tool.mjs": TOOL}, entry=NodeEntry("tool.mjs", "tell"),
        arguments={}, dependencies="0" * 64, deadline_s=30, path=machine[0].socket,
    )  # fmt: skip
    assert (reply.kind, "not installed" in reply.message) == ("unavailable", True)


def test_what_nobody_needs_is_collected_once_it_has_rested(
    machine: tuple[NamedDaemon, Path], registry: Registry, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    kept, left = unique("kept"), unique("left")
    registry.publish(*kept.values(), *left.values())
    digests = [put(one, machine, store) for one in (kept, left)]
    assert store.collect(lambda: {digests[0]}) == 0
    later = time.time() + REST_SECONDS + 1
    assert store.collect(lambda: {digests[0]}, now=lambda: later) == 1
    assert (store.has(digests[0]), store.has(digests[1])) == (True, False)
