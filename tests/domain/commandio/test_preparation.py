"""What cannot be pinned is found out before anything of a package is admitted, offered or run."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from apps.domain.commandio.pins import CannotPin
from apps.domain.commandio.preparation import pins_of_package, refusal_of
from apps.domain.manifests import Manifest, parse_manifest
from tests.factories import packages as made

TREE = {"package.json": b"{}", "tools/run": b"run", "tools/lib": b"lib", "rules.md": b"#"}


def manifest(**changes: Any) -> Manifest:
    raw = made.manifest("app", "1.0.0", made.definition("app.count"), **changes)
    raw["tools"][0]["entry"] = {
        "protocol": "json", "command": "tools/run", "args": [], "execution_paths": ["tools/run"],
    }  # fmt: skip
    return parse_manifest(raw)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_each_program_is_pinned_under_the_name_of_its_record() -> None:
    start = {"command": "tools/run", "args": ["up"], "execution_paths": ["tools/lib"]}
    stop = {"command": "tools/run", "args": ["down"], "execution_paths": ["tools/run"]}
    sessions = {"server": {"start": start, "stop": stop}}
    assert pins_of_package(manifest(sessions=sessions), TREE) == {
        "count_app": {"tools/run": sha(b"run")},
        "server_app.start": {"tools/lib": sha(b"lib")},
        "server_app.stop": {"tools/run": sha(b"run")},
    }


def test_a_package_without_programs_has_nothing_to_pin() -> None:
    assert pins_of_package(parse_manifest(made.manifest()), made.tree()) == {}


@pytest.mark.parametrize("gone", ["tools/run", "rules.md", "tools/lib"])
def test_what_is_not_there_keeps_the_whole_package_from_being_prepared(gone: str) -> None:
    human = {"command": "tools/run", "args": [], "execution_paths": ["tools/lib"]}
    declared = manifest(
        artifacts=[{"id": "rules", "kind": "file", "path": "rules.md"}],
        human_tools={"look": {"description": "Look.", **human}},
    )
    assert pins_of_package(declared, TREE)
    with pytest.raises(CannotPin) as refused:
        pins_of_package(declared, {path: body for path, body in TREE.items() if path != gone})
    assert refusal_of(refused.value).startswith("PREPARATION_FAILED: ")
