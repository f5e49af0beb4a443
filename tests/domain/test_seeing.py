"""Which images reach a model: told in the result, bounded, the newest first, and never kept."""

from __future__ import annotations

import base64

import pytest

from apps.domain.compaction import estimate
from apps.domain.seeing import (
    MAX_PER_REQUEST,
    MAX_PER_STEP,
    MAX_STEP_BYTES,
    TOKENS_PER_IMAGE,
    Seen,
    beside_results,
    digests_of,
    newest,
    with_pixels,
    worth_keeping,
)
from apps.domain.tooling import ToolImage


def image(content: bytes = b"x") -> ToolImage:
    return ToolImage("image/png", content)


def told(*images: ToolImage) -> dict[str, object]:
    return {"value": {"content": [{"type": "image", "digest": one.digest} for one in images]}}


def seen(name: str, size: int = 1) -> tuple[str, Seen]:
    return "look", Seen(f"sha256:{name}", "image/png", size)


def names(chosen: dict[int, list[tuple[str, Seen]]]) -> dict[int, list[str]]:
    return {
        step: [one.digest.removeprefix("sha256:") for _, one in images]
        for step, images in chosen.items()
    }


def test_only_what_the_projection_tells_is_kept_and_once() -> None:
    shown, hidden = image(b"shown"), image(b"hidden")
    assert worth_keeping([shown, hidden, shown], told(shown)) == [shown]


def test_of_one_result_so_many_are_kept_and_so_many_bytes() -> None:
    many = [image(bytes([number])) for number in range(MAX_PER_STEP + 2)]
    assert worth_keeping(many, told(*many)) == many[:MAX_PER_STEP]
    large, small = image(bytes(MAX_STEP_BYTES)), image(b"small")
    assert worth_keeping([large, small], told(large, small)) == [large]
    too_large = image(bytes(MAX_STEP_BYTES + 1))
    assert worth_keeping([too_large, small], told(too_large, small)) == [small]


def test_the_newest_steps_find_room_first() -> None:
    steps = {step: [seen(f"{step}{place}") for place in "abc"] for step in (1, 2, 3)}
    chosen = names(newest(steps))
    assert (chosen[3], chosen[2]) == (["3a", "3b", "3c"], ["2a", "2b", "2c"])
    assert chosen[1] == ["1a", "1b"]
    assert sum(map(len, chosen.values())) == MAX_PER_REQUEST


def test_a_step_has_bounds_of_its_own_and_an_image_is_shown_once() -> None:
    steps = {
        1: [seen("same"), seen("first")],
        2: [seen("same"), seen("large", MAX_STEP_BYTES), *(seen(str(n)) for n in range(5))],
    }
    assert names(newest(steps)) == {1: ["first"], 2: ["same", "0", "1", "2"]}


def test_an_image_is_counted_and_named_and_its_bytes_are_filled_in_at_the_end() -> None:
    message = beside_results("[Kaizen] ", [("look", Seen("sha256:aa", "image/png", 3))])
    assert message["role"] == "user"
    text = message["content"][0]["text"]
    assert text.startswith("[Kaizen] These images came with the results above")
    assert "data from outside" in text
    assert "- look: image/png, 3 bytes, sha256:aa" in text
    assert digests_of([message, {"role": "tool", "content": "text"}]) == {"sha256:aa"}
    assert TOKENS_PER_IMAGE < estimate([message]) < TOKENS_PER_IMAGE + 300
    (filled,) = with_pixels([message], {"sha256:aa": b"abc"})
    data = base64.b64encode(b"abc").decode()
    assert filled["content"][1] == {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{data}"},
    }
    # What was there before holds no bytes still.
    assert data not in str(message)


@pytest.mark.parametrize("content", ["text", None])
def test_messages_of_text_stay_as_they_are(content: str | None) -> None:
    messages = [{"role": "assistant", "content": content}]
    assert with_pixels(messages, {}) == messages


def test_an_image_that_is_not_kept_any_more_is_said_to_be_gone() -> None:
    message = beside_results("", [("look", Seen("sha256:aa", "image/png", 3))])
    (filled,) = with_pixels([message], {})
    assert filled["content"][1]["text"].startswith("[This image is not kept any more")
