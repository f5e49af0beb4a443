"""The page of our own tools says what their specifications say."""

from __future__ import annotations

from apps.tools.inventory import is_stale


def test_the_page_of_our_own_tools_is_fresh() -> None:
    assert not is_stale(), "Run `python manage.py tools inventory`."
