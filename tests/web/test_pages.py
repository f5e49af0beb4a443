"""The member's pages: who comes in, what is shown, and what an answer always carries."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.test import Client, override_settings

from apps.accounts.models import User
from apps.rooms.models import Room
from apps.rooms.services import close_room, publish_event
from tests.factories.rooms import make_room
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db

PAGES = ("/rooms/", "/rooms/new/", "/approvals/", "/approvals/list/", "/approvals/count/")


def embedded(html: str, name: str) -> Any:
    """The value that a page carries as JSON."""
    found = re.search(rf'<script id="{name}" type="application/json">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found.group(1))


# --- coming in and going out


@pytest.mark.parametrize("path", PAGES)
def test_a_page_sends_whoever_is_not_signed_in_to_sign_in(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer["Location"] == f"/sign-in/?next={path}"


def test_a_piece_of_a_page_never_shows_the_sign_in_form() -> None:
    assert Client().get("/approvals/list/", headers={"HX-Request": "true"}).status_code == 401


def test_signing_in_leads_where_one_wanted_to_go(member: User) -> None:
    answer = Client().post(
        "/sign-in/?next=/approvals/",
        {"username": "mara", "password": "a long enough secret", "next": "/approvals/"},
    )
    assert (answer.status_code, answer["Location"]) == (302, "/approvals/")


def test_signing_in_never_leads_to_another_site(member: User) -> None:
    answer = Client().post(
        "/sign-in/",
        {"username": "mara", "password": "a long enough secret", "next": "https://evil.example/"},
    )
    assert answer["Location"] == "/rooms/"


def test_a_wrong_password_is_said_without_naming_which_part_was_wrong(member: User) -> None:
    answer = Client().post("/sign-in/", {"username": "mara", "password": "wrong"})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert 'role="alert"' in page
    assert 'value="mara"' in page
    assert "wrong" not in page.split("<main")[1].split('role="alert"')[0]


def test_the_sign_in_form_needs_its_proof(member: User) -> None:
    answer = Client(enforce_csrf_checks=True).post("/sign-in/", {"username": "mara"})
    assert answer.status_code == 403
    assert "This form was open for too long" in answer.content.decode()


def test_signing_out_takes_a_form_and_ends_the_session(member: User) -> None:
    client = signed_in(member)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/rooms/").status_code == 302


def test_a_member_who_was_switched_off_is_out_at_once(member: User) -> None:
    client = signed_in(member)
    User.objects.filter(pk=member.pk).update(is_active=False)
    assert client.get("/rooms/").status_code == 302


# --- rooms


def test_a_member_without_rooms_is_told_what_will_be_there(member: User) -> None:
    assert "No rooms yet" in signed_in(member).get("/rooms/").content.decode()


def test_the_list_shows_own_rooms_with_what_was_said_last(
    member: User, room: Room, stranger: User
) -> None:
    foreign = make_room(stranger)
    said = {"author": {"kind": "user", "id": 1, "name": "Tomás"}, "text": "Back to <b>normal</b>"}
    publish_event(room_id=room.pk, kind="message.posted", actor=member, data=said)
    page = signed_in(member).get("/rooms/").content.decode()
    assert room.name in page
    assert foreign.name not in page
    assert "Back to &lt;b&gt;normal&lt;/b&gt;" in page


def test_the_list_is_cut_into_pages(member: User) -> None:
    for _ in range(31):
        make_room(member)
    client = signed_in(member)
    first = client.get("/rooms/").content.decode()
    assert first.count('<li><a href="/rooms/') == 30
    assert "Page 1 of 2" in first
    assert client.get("/rooms/?page=2").content.decode().count('<li><a href="/rooms/') == 1
    assert client.get("/rooms/?page=nonsense").status_code == 200


def test_the_list_needs_the_same_queries_for_every_number_of_rooms(
    member: User, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        make_room(member)
    client = signed_in(member)
    with django_assert_max_num_queries(8):
        client.get("/rooms/")


def test_opening_a_room_leads_into_it(member: User) -> None:
    answer = signed_in(member).post("/rooms/new/", {"name": "  Weekly   numbers "})
    room = Room.objects.get()
    assert room.name == "Weekly numbers"
    assert answer["Location"] == f"/rooms/{room.pk}/"


@pytest.mark.parametrize("name", ["", "   ", "x" * 121])
def test_a_room_without_a_fitting_name_is_not_opened(member: User, name: str) -> None:
    answer = signed_in(member).post("/rooms/new/", {"name": name})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Room.objects.exists()


def test_a_room_page_carries_the_snapshot_that_its_socket_goes_on_from(
    member: User, room: Room
) -> None:
    data = embedded(signed_in(member).get(f"/rooms/{room.pk}/").content.decode(), "room-page")
    assert data["room"] == {"id": str(room.pk), "name": room.name, "closed": False}
    assert data["me"]["username"] == "mara"
    assert data["position"] == room.position
    assert [one["username"] for one in data["snapshot"]["participants"]] == ["mara", "tomas"]
    assert data["snapshot"]["items"][-1]["position"] == room.position


def test_nothing_that_was_said_can_leave_its_place_in_the_page(member: User, room: Room) -> None:
    evil = "</script><script>alert(1)</script><!-- &amp;"
    said = {"author": {"kind": "user", "id": member.pk, "name": evil}, "text": evil}
    publish_event(room_id=room.pk, kind="message.posted", actor=member, data=said)
    page = signed_in(member).get(f"/rooms/{room.pk}/").content.decode()
    assert "<script>alert" not in page
    assert embedded(page, "room-page")["snapshot"]["items"][-1]["data"]["text"] == evil


def test_a_foreign_room_looks_like_one_that_does_not_exist(room: Room, stranger: User) -> None:
    client = signed_in(stranger)
    foreign, missing = client.get(f"/rooms/{room.pk}/"), client.get(f"/rooms/{uuid.uuid4()}/")
    assert (foreign.status_code, missing.status_code) == (404, 404)
    assert room.name not in foreign.content.decode()


def test_a_closed_room_stays_readable(member: User, guest: User, room: Room) -> None:
    close_room(room_id=room.pk, actor=member)
    data = embedded(signed_in(guest).get(f"/rooms/{room.pk}/").content.decode(), "room-page")
    assert data["room"]["closed"] is True


# --- what every page is


@pytest.mark.parametrize("path", ["/rooms/", "/rooms/new/", "/approvals/"])
def test_a_page_runs_no_script_of_its_own_and_names_its_parts(member: User, path: str) -> None:
    answer = signed_in(member).get(path)
    page = answer.content.decode()
    assert "script-src 'self';" in answer["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Frame-Options"] == "DENY"
    assert "no-store" in answer["Cache-Control"]
    scripts = re.findall(r"<script([^>]*)>", page)
    assert all("src=" in one or "application/json" in one for one in scripts)
    assert not re.search(r"\son\w+=", page)
    assert 'class="skip"' in page
    assert '<main class="' in page
    assert 'lang="en"' in page


def test_administrators_find_the_way_to_their_pages(member: User) -> None:
    assert "/admin/" not in signed_in(member).get("/rooms/").content.decode()
    User.objects.filter(pk=member.pk).update(is_staff=True)
    assert "/admin/" in signed_in(member).get("/rooms/").content.decode()


def test_an_address_that_leads_nowhere_says_so_in_our_words() -> None:
    answer = Client().get("/nowhere/")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert "There is nothing here that you may see" in page
    assert answer["X-Correlation-ID"] in page


def test_a_failure_of_ours_says_what_happened_without_telling_how(
    member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("apps.web.views.rooms.listed_rooms", fail)
    client = signed_in(member)
    client.raise_request_exception = False
    with override_settings(DEBUG=False):
        answer = client.get("/rooms/")
    assert answer.status_code == 500
    assert "Something failed on our side" in answer.content.decode()
    assert "secret detail" not in answer.content.decode()
