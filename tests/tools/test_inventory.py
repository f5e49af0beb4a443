"""The page of our own tools, the catalog and the check all say what the specifications say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.tools.catalog import freeze_catalog
from apps.tools.inventory import PAGE, inventory_page
from apps.tools.registry import BUILTIN_TOOLS, THE_SET


@pytest.fixture
def page(settings: Any, tmp_path: Path) -> Path:
    """Where the page lies, in a place of this test's own."""
    settings.BASE_DIR = tmp_path
    (tmp_path / PAGE).parent.mkdir()
    return tmp_path / PAGE


def checked() -> int:
    try:
        call_command("tools", "inventory", "--check")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_a_missing_or_changed_page_is_stale_and_checking_writes_nothing(page: Path) -> None:
    assert checked() == 1
    assert not page.exists()
    call_command("tools", "inventory")
    assert checked() == 0
    page.write_text(page.read_text().replace("exact_room", "unknown", 1))
    changed = page.read_text()
    assert checked() == 1
    assert page.read_text() == changed


@pytest.mark.parametrize("name", sorted(BUILTIN_TOOLS))
def test_a_tool_is_told_alike_on_the_page_and_to_models(name: str) -> None:
    spec = BUILTIN_TOOLS[name].spec
    (row,) = [line for line in inventory_page().splitlines() if line.startswith(f"| [`{name}`]")]
    for said in (spec.effect, spec.guard, spec.capability, spec.collaboration):
        assert f"| {said} |" in row
    assert " ".join(spec.description.split()) in inventory_page()
    assert THE_SET[name].why in inventory_page()
    catalog, _ = freeze_catalog([BUILTIN_TOOLS[name]])
    assert catalog["tools"][name]["description"] == spec.description
