"""What a room sees of a program while it runs: whole lines, in order, harmless, and bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.models import User
from apps.boundary.live import MAX_SHOWN, LiveOutput
from apps.rooms.models import Room
from apps.rooms.previews import open_previews
from apps.runs.models import Run
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room, proposed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def room(member: User) -> Room:
    return make_room(member, make_agent(member, slug="scribe"))


@pytest.fixture
def run(room: Room, member: User) -> Run:
    return claimed_run(room, room.seats.get().agent, member)


@pytest.fixture
def live(run: Run) -> LiveOutput:
    return LiveOutput(run=run, call=proposed(run, "list_available_agents", {}))


def shown(room: Room) -> str:
    """The output that whoever joins now sees."""
    found = [one["text"] for one in open_previews(str(room.pk)) if one["of"] == "output"]
    return "".join(found)


def until(held: Callable[[], bool]) -> None:
    patience = time.monotonic() + 20
    while not held():
        assert time.monotonic() < patience
        time.sleep(0.02)


def test_lines_are_shown_whole_and_in_the_order_in_which_they_ended(
    live: LiveOutput, room: Room
) -> None:
    with live:
        live.say("stdout", b"one\ntw")
        live.say("stderr", b"a warning\n")
        until(lambda: shown(room) == "one\na warning\n")
        live.say("stdout", b"o\n")
        until(lambda: shown(room) == "one\na warning\ntwo\n")


def test_what_a_terminal_would_obey_is_made_visible(live: LiveOutput, room: Room) -> None:
    with live:
        live.say("stdout", b"\x1b[2Jclear\xff \xe2\x82")
        live.say("stdout", b"\xac\r\nnext\n")
        until(lambda: shown(room) == "\\x1b[2Jclear\ufffd \u20ac\nnext\n")


def test_a_credential_that_comes_in_two_pieces_is_not_shown(live: LiveOutput, room: Room) -> None:
    with live:
        live.say("stdout", b"key AKIA" + b"A" * 8)
        live.say("stdout", b"A" * 8 + b" end\n")
        until(lambda: shown(room).endswith("end\n"))
        assert "AKIA" not in shown(room)


def test_output_is_bounded_and_says_so(live: LiveOutput, room: Room) -> None:
    with live:
        for _ in range(400):
            live.say("stdout", b"x" * 999 + b"\n")
        until(lambda: "not shown here" in shown(room))
        assert len(shown(room)) < MAX_SHOWN + 100


def test_nothing_is_left_once_the_call_has_ended(live: LiveOutput, room: Room) -> None:
    with live:
        live.say("stdout", b"one\n")
        until(lambda: shown(room) == "one\n")
    until(lambda: shown(room) == "")


def test_a_program_that_says_nothing_shows_nothing(live: LiveOutput, room: Room) -> None:
    with live:
        pass
    assert shown(room) == ""
