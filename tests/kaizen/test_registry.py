"""Dependencies of packages come from where npm itself would ask, unless somebody says otherwise."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.sandbox.installers import NotInstalled, registry_of_npm
from kaizen import runtimes
from tests.sandboxd.daemon import make_home

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def node() -> Iterator[Path]:
    home = make_home()
    yield home / "runtime" / "node"
    shutil.rmtree(home)


def test_it_is_the_registry_that_npm_is_set_up_with(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "https://packages.example/npm/")
    assert registry_of_npm(node) == "https://packages.example/npm/"


def test_an_address_that_others_can_read_is_none(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://packages.example/npm/")
    assert registry_of_npm(node) == ""


def test_an_address_that_holds_a_password_is_not_passed_on(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "https://name:word@packages.example/npm/")
    with pytest.raises(NotInstalled) as refused:
        registry_of_npm(node)
    assert "word@" not in str(refused.value)


def test_a_node_that_does_not_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="npm does not say"):
        registry_of_npm(tmp_path)


def test_what_was_noted_is_read_back_and_a_missing_note_is_nothing(tmp_path: Path) -> None:
    assert runtimes.registry(tmp_path) == ""
    (tmp_path / runtimes.REGISTRY).write_text("https://packages.example/npm/\n")
    assert runtimes.registry(tmp_path) == "https://packages.example/npm/"
