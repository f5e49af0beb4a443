"""Whole specifications, one call to register them, and names that are taken once."""

from dataclasses import replace
from typing import Any

import pytest

from apps.domain.tooling import (
    BadSpecification,
    NameTaken,
    NotInTheSet,
    Registry,
    Specification,
    Untyped,
)
from tests.domain.test_tooling import READ, WRITES, make


def noted(**changes: Any) -> Specification:
    return make(**{"side_effects": WRITES, **changes})


def run(*given: Any) -> str:
    return "ran"


def run_otherwise(*given: Any) -> str:
    return "ran otherwise"


def filled(**changes: Any) -> Registry[Any]:
    registry: Registry[Any] = Registry()
    registry.register_spec(noted(**changes), run)
    return registry


def test_a_name_is_taken_once_and_so_is_an_alias() -> None:
    registry = filled(aliases=("note",))
    for taken in (
        noted(),
        noted(name="note"),
        noted(name="other", aliases=("note",)),
        noted(name="other", aliases=("create_note",)),
    ):
        with pytest.raises(NameTaken):
            registry.register_spec(taken, run)
    assert list(registry.snapshot()) == ["create_note"]


def test_replacing_is_explicit_and_takes_the_old_aliases_along() -> None:
    registry = filled(aliases=("note",))
    before = registry.snapshot()
    registry.register_spec(noted(aliases=("memo",)), run_otherwise, replace=True)
    assert registry.get("note") is None
    assert registry.get("memo") is registry.get("create_note")
    assert before["create_note"].spec.aliases == ("note",)
    with pytest.raises(NameTaken):
        registry.register_spec(noted(name="other", aliases=("memo",)), run, replace=True)


def test_a_refused_replacement_leaves_everything_as_it_was() -> None:
    registry = filled(aliases=("note",))
    registry.register_spec(noted(name="other", aliases=("memo",)), run)
    before = registry.snapshot()
    with pytest.raises(NameTaken):
        registry.register_spec(noted(aliases=("memo",)), run, replace=True)
    assert registry.snapshot() == before
    assert registry.get("note") is registry.get("create_note")


def test_a_replaced_executor_keeps_its_specification() -> None:
    registry = filled(aliases=("note",))
    spec = registry.snapshot()["create_note"].spec
    registry.replace_executor("create_note", run_otherwise)
    entry = registry.get("note")
    assert entry is not None
    assert entry.spec is spec
    assert entry.executor() == "ran otherwise"
    with pytest.raises(KeyError):
        registry.replace_executor("note", run)
    with pytest.raises(Untyped):
        registry.replace_executor("create_note", "run")


def test_a_removed_tool_takes_its_aliases_and_its_descriptor_along() -> None:
    registry = filled(aliases=("note",))
    assert [descriptor.name for descriptor in registry.descriptors()] == ["create_note"]
    registry.remove("create_note")
    assert registry.get("note") is None
    assert registry.descriptors() == []
    assert dict(registry.snapshot()) == {}
    registry.register_spec(noted(name="note"), run)
    with pytest.raises(KeyError):
        registry.remove("create_note")


@pytest.mark.parametrize(
    ("spec", "executor"),
    [
        (print, print),
        ({"name": "create_note"}, run),
        (None, run),
        ("specification", "no executor"),
        ("specification", None),
    ],
)
def test_an_untyped_callable_is_no_tool(spec: Any, executor: Any) -> None:
    with pytest.raises(ValueError, match="registered"):
        Registry().register_spec(noted() if spec == "specification" else spec, executor)


def test_what_changes_something_says_what() -> None:
    with pytest.raises(BadSpecification, match="does not say what"):
        Registry().register_spec(make(), run)
    Registry().register_spec(make(**READ), run)


@pytest.mark.parametrize(
    "lie",
    [
        {"effect": "write"},
        {"capability": "everything"},
        {"input_text": b'{"type":"string"}'},
        {"input_text": b'{"$ref":"http://x.test/","type":"object"}'},
        {"timeout_s": 10_000.0},
        {"parallel_safe": True},
        {"aliases": ["note"]},
        {"dialect": "http://json-schema.org/draft-07/schema"},
    ],
)
def test_a_specification_that_was_never_checked_is_checked_here(lie: dict[str, Any]) -> None:
    with pytest.raises(BadSpecification):
        Registry().register_spec(replace(noted(), **lie), run)


def test_a_closed_registry_takes_nothing_that_its_set_does_not_name() -> None:
    registry: Registry[Any] = Registry({"create_note"})
    registry.register_spec(noted(), run)
    with pytest.raises(NotInTheSet):
        registry.register_spec(noted(name="delete_note"), run)
    assert list(registry.snapshot()) == ["create_note"]


def test_a_snapshot_keeps_whole_specifications_and_cannot_be_changed() -> None:
    registry = filled()
    snapshot = registry.snapshot()
    registry.remove("create_note")
    assert snapshot["create_note"].spec == noted()
    with pytest.raises(TypeError):
        snapshot["x"] = snapshot["create_note"]  # type: ignore[index]
