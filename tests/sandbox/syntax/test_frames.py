"""A child whose grammar was overrun may answer anything; only answers are believed."""

from __future__ import annotations

from array import array

import pytest

from apps.domain.hashline import Node, Survey
from apps.domain.wire import Message
from apps.sandbox.syntax.frames import BadAnswer, answer, question, read_answer, read_question

NODE = Node("call", 1, 4, 2, 0, broken=False)
OUTER = Node("block", 1, 4, 9, 1, broken=True, error=True)
FIELDS = {"broken": False, "constructs": 1, "kinds": ["call"], "nodes": 1}
GOOD = array("i", [0, 1, 4, 2, 0, 0, 1, 1, 0]).tobytes()


def test_a_question_arrives_as_it_was_asked() -> None:
    asked = question("a/b.py", "ä = 1\n", [5, 1, 2, 3])
    assert read_question(asked) == ("a/b.py", "ä = 1\n", [1, 2, 3, 5])


@pytest.mark.parametrize(
    "survey",
    [None, Survey(True, 0), Survey(False, 2, {1: (NODE, OUTER), 7: (), 8: (OUTER,)})],
)
def test_an_answer_arrives_as_it_was_given(survey: Survey | None) -> None:
    assert read_answer(answer(survey)) == survey


@pytest.mark.parametrize(
    "message",
    [
        Message("ready"),
        Message("survey"),
        Message("survey", {**FIELDS, "broken": 1}, GOOD),
        Message("survey", {**FIELDS, "nodes": -1}, GOOD),
        Message("survey", {**FIELDS, "nodes": 99}, GOOD),
        Message("survey", {**FIELDS, "kinds": "call"}, GOOD),
        Message("survey", {**FIELDS, "kinds": ["x" * 201]}, GOOD),
        Message("survey", {**FIELDS, "kinds": []}, GOOD),
        Message("survey", FIELDS, GOOD[:-1]),
        Message("survey", FIELDS, GOOD[:-4]),
        Message("survey", FIELDS, array("i", [0, -1, 4, 2, 0, 0]).tobytes()),
        Message("survey", FIELDS, array("i", [0, 3, 4, 2, 0, 0]).tobytes()),
        Message("survey", FIELDS, array("i", [0, 1, 4, 2, 0, 0, 1, 1, 5]).tobytes()),
        Message("survey", FIELDS, array("i", [0, 1, 4, 2, 0, 0, 1, -1]).tobytes()),
        Message("survey", FIELDS, array("i", [0, 1, 4, 2, 0, 0, 1, 2**30, 0]).tobytes()),
    ],
)
def test_what_is_no_answer_is_refused(message: Message) -> None:
    with pytest.raises(BadAnswer):
        read_answer(message)
