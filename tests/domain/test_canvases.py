"""A canvas that was dropped takes its claims along, and never the result."""

from typing import Any

import pytest
from hypothesis import given

from apps.domain.canvases import NOTHING_ON_SCREEN, without_canvases
from apps.domain.projection import project
from apps.domain.tooling import ToolOk
from tests.domain.test_projection import json_values, reader


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"rows": 3, "on_screen": True}, {"rows": 3}),
        ({"rows": 3, "onScreen": "The table is on screen; summarize it."}, {"rows": 3}),
        ({"rows": 3, "chat_canvas_outputs": [{"markdown": "| a |"}]}, {"rows": 3}),
        ({"rows": 3, "chatCanvasOutputs": {"title": "T"}, "shown-on-screen": 1}, {"rows": 3}),
        ({"deep": [{"on_screen": True, "n": 1}]}, {"deep": [{"n": 1}]}),
    ],
)
def test_a_dropped_canvas_withdraws_its_claim_and_the_result_stands(value: Any, left: Any) -> None:
    projected = project(ToolOk(value), reader())
    assert projected["status"] == "ok"
    assert projected["value"] == left
    assert projected["on_screen"] == NOTHING_ON_SCREEN
    assert "Describe no data" in NOTHING_ON_SCREEN


@pytest.mark.parametrize(
    "value",
    [
        {"canvas": "linen, 40 by 60"},
        {"on_screen": False},
        {"canvas": {"width": 40}},
        {"chat_canvas_outputs": []},
        {"chat_canvas_outputs": "none"},
        {"screen": "on"},
        ["on_screen"],
        "It is on screen.",
    ],
)
def test_what_is_no_canvas_and_no_claim_stays(value: Any) -> None:
    projected = project(ToolOk(value), reader())
    assert projected["value"] == value
    assert "on_screen" not in projected


@given(json_values)
def test_what_is_left_claims_nothing_more(value: Any) -> None:
    left, _ = without_canvases({"on_screen": True, "value": value})
    assert without_canvases(left) == (left, False)
