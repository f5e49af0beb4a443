"""Which words of a member bind a tool, which only prefer it, and which do neither."""

from __future__ import annotations

import time

import pytest

from apps.domain.directives import MAX_PREFERRED, MAX_READ, Directive, read_directive

NAMES = ("search_about", "create_artifact", "read-page", "search", "send_letter")


def bound(text: str) -> str:
    return read_directive(text, authorized=NAMES).bound


@pytest.mark.parametrize(
    "text",
    [
        "You must call search_about.",
        "you must call the search_about tool and tell me what a receipt is",
        "Must call search_about",
        "Please look it up; you must call search_about before you answer.",
        "You must call `search_about`.",
        'You must call "search_about" now.',
        "You must call “search_about”, do not guess.",
        "You must first call search_about, and then answer.",
        "Use search_about exactly once.",
        "use the tool search_about exactly once and summarise what it says",
        "Call search_about exactly one time, please.",
        "Please call the search_about tool exactly once",
        "Hello!\nNow use search_about exactly once.\nThanks.",
        "@scribe you must call search_about.",
        "@scribe, use search_about exactly once",
        "You must call search_about. I mean it: search_about!",
        "YOU MUST CALL search_about.",
        "I need this for work, so you must call search_about.",
    ],
)
def test_a_clear_demand_binds_the_one_tool_that_it_names(text: str) -> None:
    assert bound(text) == "search_about"


@pytest.mark.parametrize(
    "text",
    [
        "You must not call search_about.",
        "You must call search_about. No, do not call search_about.",
        "Don't use search_about exactly once.",
        "Don’t call search_about exactly once.",
        "Never use search_about exactly once.",
        "You must call something else instead of search_about.",
        "Use anything except search_about exactly once.",
        "search_about must not be called.",
        "You must avoid it, so never call search_about.",
        "Answer without it: you cannot call search_about exactly once.",
    ],
)
def test_a_no_binds_nothing(text: str) -> None:
    assert bound(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Why must you call search_about?",
        "Must I call search_about?",
        "Can you use search_about exactly once?",
        "Explain when you must call search_about.",
        'What does "you must call search_about" mean?',
        "The documentation says you must call search_about.",
        "Anna said: you must call search_about.",
        "He wrote “use search_about exactly once” on the wall.",
        "He wrote 'use search_about exactly once' on the wall.",
        "> You must call search_about.",
        "```\nYou must call search_about.\n```",
        "The text is `you must call search_about` and nothing more.",
        "If it rains you must call search_about.",
        "You must call search_about if it rains.",
        "Other agents must call search_about.",
        "I wonder whether you must call search_about.",
        "You should call search_about.",
        "Maybe use search_about exactly once.",
    ],
)
def test_talk_about_a_tool_binds_nothing(text: str) -> None:
    assert bound(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "You must call search_about and create_artifact.",
        "You must call search_about or create_artifact.",
        "You must call search_about. Later we look at create_artifact.",
        "Use search_about exactly once and create_artifact exactly once.",
        "You must call search_about or the other one.",
    ],
)
def test_several_tools_bind_nothing(text: str) -> None:
    assert bound(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "You must call no_such_tool.",
        "You must call search_about_too.",
        "You must call my-search_about.",
        "You must call Search_About.",
        "You must call.",
        "You must make a new document.",
        "Show it in an inline canvas, exactly once.",
        "Write a report. You must make it an artifact.",
        "Look at search_about.",
        "Use search_about at most once.",
        "Use search_about.",
        "",
    ],
)
def test_what_names_no_authorized_tool_in_a_strict_form_binds_nothing(text: str) -> None:
    assert bound(text) == ""


def test_a_name_in_the_request_is_shown_first_in_the_order_of_the_words() -> None:
    text = "Take read-page, then search_about (not no_such_tool)."
    assert read_directive(text, authorized=NAMES).preferred == ("read-page", "search_about")


def test_a_name_inside_a_longer_one_is_no_mention() -> None:
    assert read_directive("search_about", authorized=NAMES).preferred == ("search_about",)
    assert read_directive("research searching search-x", authorized=NAMES) == Directive()


def test_slots_are_bounded() -> None:
    many = [f"tool_{number}" for number in range(20)]
    assert len(read_directive(" ".join(many), authorized=many).preferred) == MAX_PREFERRED


def test_a_tool_says_itself_which_words_it_is_for_and_may_not_be_bound_by_them() -> None:
    hints = {"search_about": ("about kaizen", "how does kaizen"), "no_such_tool": ("letters",)}
    read = read_directive("Tell me:  how does\nKaizen work?", authorized=NAMES, hints=hints)
    assert read == Directive("", ("search_about",))
    assert read_directive("letters", authorized=NAMES, hints=hints) == Directive()
    assert read_directive("howdy kaizen", authorized=NAMES, hints=hints) == Directive()


def test_what_the_server_routed_goes_before_the_members_words() -> None:
    read = read_directive("You must call search_about.", authorized=NAMES, routed="create_artifact")
    assert read == Directive("", ("create_artifact", "search_about"))


def test_a_route_to_a_tool_that_the_run_does_not_hold_is_none() -> None:
    read = read_directive("You must call search_about.", authorized=NAMES, routed="other")
    assert read.bound == "search_about"


@pytest.mark.parametrize("piece", ['"a ', "must call ", "`", "search_about ", ".", "'x ", "> "])
def test_a_long_request_is_read_in_little_time(piece: str) -> None:
    began = time.process_time()
    read_directive(piece * (MAX_READ // len(piece)), authorized=NAMES)
    # A reader that went back over its text for every place would need minutes.
    assert time.process_time() - began < 5
