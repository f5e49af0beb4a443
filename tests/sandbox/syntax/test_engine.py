"""The engine finds the same blocks, and proves the same places, through the child."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.domain.hashline import Caution, Rule
from apps.sandbox.syntax.ask import ConfinedGrammar
from tests.domain.hashline.desk import Desk
from tests.domain.hashline.reference import CASES, differs

SYNTAX = [case for case in CASES.values() if case["group"] in {"block", "context", "repair"}]


@pytest.fixture(scope="module")
def grammar() -> Iterator[ConfinedGrammar]:
    asked = ConfinedGrammar()
    yield asked
    asked.close()


def test_the_reference_cases_of_syntax_hold(grammar: ConfinedGrammar) -> None:
    said = {case["id"]: differs(case, Desk(grammar=grammar)) for case in SYNTAX}
    assert {name: what for name, what in said.items() if what} == {}


def test_a_file_that_crashes_its_grammar_is_edited_by_lines_and_never_guessed_at(
    grammar: ConfinedGrammar,
) -> None:
    desk = Desk(grammar=grammar)
    hostile = "> " * 50_000 + "\ntext\nmore\n"
    tag = desk.put("a.md", hostile)
    assert desk.refused(f"[a.md#{tag}]\nCUT 1*").rule is Rule.BLOCK_UNRESOLVED
    desk.files["a.md"] = "new\n" + hostile
    assert desk.refused(f"[a.md#{tag}]\nPUT 2.=2:\n+x").rule is Rule.STALE
    section = desk.done(f"[a.md#{desk.read('a.md')}]\nPUT 3.=3:\n+x")
    assert Caution.SYNTAX_BROKEN not in section.cautions
    assert desk.files["a.md"].endswith("\nx\nmore\n")
