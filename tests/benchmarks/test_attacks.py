"""The table of attacks is whole, and every row of it names tests that exist."""

import ast
from pathlib import Path

import pytest

from benchmarks.attacks.table import BEHIND_THE_FILTER, TABLE, Attack
from benchmarks.harness import CLONE


def test_every_row_is_there_once() -> None:
    assert [row.number for row in TABLE] == list(range(1, 82))
    assert all(row.tests for row in TABLE)
    assert {row.number for row in TABLE} >= BEHIND_THE_FILTER


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.number}-{row.title}")
def test_every_row_is_carried_out_by_tests_that_exist(row: Attack) -> None:
    for test in row.tests:
        file, _, name = test.partition("::")
        tree = ast.parse(Path(CLONE, file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
