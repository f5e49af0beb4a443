"""What a member asks for in plain words."""

import pytest

from apps.domain.wishes import wants_no_retries


@pytest.mark.parametrize(
    "text",
    [
        "Run it, no retries please.",
        "Compute the sum without retrying.",
        "Do not retry when it fails.",
        "Please don't try it again.",
        "Please don’t\nretry.",
        "Run this only once.",
    ],
)
def test_a_wish_for_no_second_try_is_heard(text: str) -> None:
    assert wants_no_retries(text)


@pytest.mark.parametrize(
    "text", ["", "Retry until it works.", "Make a chart of retries.", "Try again if it fails."]
)
def test_other_words_are_no_such_wish(text: str) -> None:
    assert not wants_no_retries(text)
