"""Texts made to break a grammar break a child, and nobody else notices more than a refusal."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from apps.domain.hashline import SyntaxUnavailable
from apps.sandbox.syntax.ask import MAX_QUESTIONS, ConfinedGrammar
from apps.sandbox.syntax.trees import TreeSitter

FUNCTION = "def f():\n    if x:\n        y()\n        z()\n    return 1\n"


@pytest.fixture(scope="module")
def grammar() -> Iterator[ConfinedGrammar]:
    asked = ConfinedGrammar()
    yield asked
    asked.close()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("m.py", FUNCTION),
        ("m.py", "def broken(:\n"),
        ("m.md", "# T\n\n- a\n- b\n\n## U\n"),
        ("m.json", '{\n  "ä": {\n    "b": 1\n  }\n}\n'),
        ("m.ts", ""),
    ],
)
def test_the_child_says_what_the_grammar_says(
    grammar: ConfinedGrammar, path: str, text: str
) -> None:
    rows = range(text.count("\n") + 1)
    assert grammar.survey(path, text, rows) == TreeSitter().survey(path, text, rows)


def test_a_file_without_a_grammar_needs_no_child() -> None:
    grammar = ConfinedGrammar(deadline=0)
    assert grammar.survey("notes.txt", "text\n", [0]) is None


@pytest.mark.parametrize(
    ("path", "text"), [("a.md", "> " * 50_000), ("a.yaml", "- " * 20_000)], ids=["quotes", "lists"]
)
def test_a_text_that_crashes_its_grammar_costs_only_the_answer(
    grammar: ConfinedGrammar, path: str, text: str
) -> None:
    with pytest.raises(SyntaxUnavailable):
        grammar.survey(path, text, [0])
    survey = grammar.survey("m.py", FUNCTION, [0])
    assert survey is not None
    assert not survey.broken


def test_a_text_that_takes_too_long_is_given_up() -> None:
    grammar = ConfinedGrammar(deadline=0.2)
    try:
        with pytest.raises(SyntaxUnavailable, match="too long"):
            grammar.survey("a.swift", "/*" * 10_000, [0])
        assert grammar.survey("m.py", "x = 1\n", []) is not None
    finally:
        grammar.close()


def test_syntax_nested_beyond_reason_is_not_followed(grammar: ConfinedGrammar) -> None:
    with pytest.raises(SyntaxUnavailable, match="nested"):
        grammar.survey("a.json", "[" * 2_000 + "\n1" + "]" * 2_000, [1])


def test_a_child_is_replaced_when_it_is_worn(grammar: ConfinedGrammar) -> None:
    for _ in range(MAX_QUESTIONS + 2):
        survey = grammar.survey("m.py", "x = 1\n", [0])
        assert survey is not None


def test_a_process_that_was_forked_off_starts_a_child_of_its_own(
    grammar: ConfinedGrammar,
) -> None:
    expected = grammar.survey("m.py", FUNCTION, [0])
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            same = grammar.survey("m.py", FUNCTION, [0]) == expected
            os.write(writer, b"same" if same else b"other")
            grammar.close()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"same"
    os.waitpid(pid, 0)
    assert grammar.survey("m.py", FUNCTION, [0]) == expected
