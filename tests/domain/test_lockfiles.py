"""Which dependencies may a package have, and what stands for them?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.domain.lockfiles import LOCK, dependencies_of, dependency_problems
from tests.factories import locks

A, B = locks.published("alpha", "1.2.3"), locks.published("@scope/beta", "2.0.0-rc.1")


def tree(lock: bytes | None = None, **package: Any) -> dict[str, bytes]:
    package.setdefault("dependencies", {"alpha": "1.2.3", "@scope/beta": "2.0.0-rc.1"})
    needs = {"alpha": A, "@scope/beta": B}
    return {
        "package.json": locks.package_json("mine", **package),
        LOCK: locks.lock("mine", needs) if lock is None else lock,
    }


def rules(files: dict[str, bytes]) -> set[tuple[str, str]]:
    return {(one.path, one.rule) for one in dependency_problems(files)}


def with_entry(**changes: Any) -> bytes:
    raw = json.loads(locks.lock("mine", {"alpha": A, "@scope/beta": B}))
    entry = raw["packages"]["node_modules/alpha"]
    entry.update(changes)
    for name in [name for name, value in changes.items() if value is None]:
        del entry[name]
    return json.dumps(raw).encode()


def test_exact_pins_with_hashes_are_taken() -> None:
    assert rules(tree()) == set()
    found = dependencies_of(tree())
    assert [one.place for one in found.packages] == [
        "node_modules/@scope/beta",
        "node_modules/alpha",
    ]
    assert found.packages[0].address == "/@scope/beta/-/beta-2.0.0-rc.1.tgz"
    assert len(found.digest) == 64


def test_a_tree_without_dependencies_needs_no_lock_file() -> None:
    assert rules({"package.json": locks.package_json("mine")}) == set()
    assert dependencies_of({"package.json": locks.package_json("mine")}).digest == ""


def test_a_tree_with_dependencies_needs_one() -> None:
    files = tree()
    del files[LOCK]
    assert rules(files) == {(LOCK, "required")}


def test_the_content_address_follows_the_bytes_that_are_named() -> None:
    other = locks.published("alpha", "1.2.3", {"more.js": b"//"})
    changed = tree(locks.lock("mine", {"alpha": other, "@scope/beta": B}))
    assert dependencies_of(changed).digest != dependencies_of(tree()).digest
    assert dependencies_of(tree(scripts={"x": "y"})).digest == dependencies_of(tree()).digest


@pytest.mark.parametrize(
    "version",
    [
        "^1.2.3", "~1.2.3", "1.x", "*", "latest", "", ">=1.0.0", "1.2", "npm:other@1.2.3",
        "git+ssh://git@host/x.git", "git://host/x", "github:user/repo", "user/repo",
        "http://host/x.tgz", "https://host/x.tgz", "file:../x", "link:../x", "workspace:*",
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["dependencies", "devDependencies", "optionalDependencies"])
def test_only_exact_versions_are_pins(field: str, version: str) -> None:
    files = {"package.json": locks.package_json("mine", **{field: {"alpha": version}})}
    assert (f"package.json.{field}.alpha", "exact_pin") in rules(files)


@pytest.mark.parametrize(
    "name",
    ["preinstall", "install", "postinstall", "prepublish", "prepublishOnly", "prepack", "postpack",
     "prepare", "publish", "postpublish", "preprepare", "postprepare", "dependencies"],
)  # fmt: skip
def test_lifecycle_scripts_are_refused(name: str) -> None:
    assert (f"package.json.scripts.{name}", "lifecycle_script") in rules(
        tree(scripts={name: "node evil.js", "test": "node --test"})
    )


@pytest.mark.parametrize("field", ["workspaces", "overrides", "bundleDependencies"])
def test_fields_that_would_pull_in_more_are_refused(field: str) -> None:
    assert (f"package.json.{field}", "unsupported") in rules(tree(**{field: ["alpha"]}))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"integrity": None}, "integrity"),
        ({"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}, "integrity"),
        ({"integrity": "sha512-AAAA"}, "integrity"),
        ({"resolved": None}, "registry"),
        ({"resolved": "http://registry.example/alpha/-/alpha-1.2.3.tgz"}, "registry"),
        ({"resolved": "https://u:p@registry.example/alpha/-/alpha-1.2.3.tgz"}, "registry"),
        ({"resolved": "https://registry.example/alpha/-/alpha-1.2.4.tgz"}, "registry"),
        ({"resolved": "https://host.example/alpha.tgz"}, "registry"),
        ({"resolved": "git+ssh://git@host.example/alpha/-/alpha-1.2.3.tgz"}, "registry"),
        ({"resolved": "file:../alpha/-/alpha-1.2.3.tgz"}, "registry"),
        ({"resolved": "https://169.254.169.254/latest/meta-data"}, "registry"),
        ({"link": True}, "link"),
        ({"inBundle": True}, "link"),
        ({"version": "^1.2.3"}, "exact_pin"),
        ({"os": ["linux", {"x": 1}]}, "type"),
    ],
)
def test_an_entry_that_is_not_pinned_to_its_bytes_is_refused(
    changes: dict[str, Any], rule: str
) -> None:
    assert rule in {one.rule for one in dependency_problems(tree(with_entry(**changes)))}


@pytest.mark.parametrize(
    "place",
    ["../alpha", "node_modules/../x", "node_modules/.bin", "/node_modules/a", "packages/a",
     "node_modules/a/b/c", "node_modules/" + "/node_modules/".join("abcdefghij")],
)  # fmt: skip
def test_a_place_outside_node_modules_is_refused(place: str) -> None:
    lock = locks.lock("mine", {"alpha": A, "@scope/beta": B}, **{place: A.locked()})
    assert rules(tree(lock)) == {(f"package-lock.json.packages.{place}", "place")}


def test_a_lock_of_other_dependencies_is_refused() -> None:
    lock = locks.lock("mine", {"alpha": A, "@scope/beta": B}, root={"dependencies": {}})
    assert {rule for _, rule in rules(tree(lock))} == {"disagrees"}
    older = locks.published("alpha", "1.2.2")
    lock = locks.lock(
        "mine", {"alpha": older, "@scope/beta": B},
        root={"dependencies": {"alpha": "1.2.3", "@scope/beta": "2.0.0-rc.1"}},
    )  # fmt: skip
    assert rules(tree(lock)) == {("package-lock.json.packages.node_modules/alpha", "disagrees")}


def test_old_lock_files_are_refused() -> None:
    lock = json.dumps({"lockfileVersion": 1, "dependencies": {}}).encode()
    assert rules(tree(lock)) == {("package-lock.json.lockfileVersion", "version")}
