"""Rooms are opened, joined, furnished, read and closed over the API."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.rooms.models import Room
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member

ROOMS = "/api/v1/rooms"


def test_who_opens_a_room_owns_it(as_mara: APIClient, mara: User) -> None:
    made = as_mara.post(ROOMS, {"name": "  Incident   4127 "})
    assert made.status_code == 201
    body = made.json()
    assert set(body) == {
        "id",
        "name",
        "closed",
        "position",
        "created_by",
        "created_at",
        "updated_at",
    }
    assert (body["name"], body["closed"], body["position"]) == ("Incident 4127", False, 1)
    detail = as_mara.get(f"{ROOMS}/{body['id']}").json()
    assert [(p["username"], p["role"]) for p in detail["participants"]] == [
        (mara.username, "owner")
    ]


def test_participants_come_and_go(
    as_mara: APIClient, as_tomas: APIClient, tomas: User, room: Room
) -> None:
    guest = make_member()
    places = f"{ROOMS}/{room.pk}/participants"
    # Anyone who takes part may invite; only the owner takes others out.
    made = as_tomas.post(places, {"username": guest.username})
    assert (made.status_code, made.json()["role"]) == (201, "member")
    problem(as_tomas.delete(f"{places}/{guest.username}"), 403, "forbidden")
    assert as_mara.delete(f"{places}/{guest.username}").status_code == 204
    problem(as_mara.delete(f"{places}/{guest.username}"), 404, "not_found")
    assert as_tomas.delete(f"{places}/{tomas.username}").status_code == 204
    body = problem(as_mara.post(places, {"username": "nobody-here"}), 404, "not_found")
    assert body["field"] == "username"


def test_agents_take_and_leave_seats(
    as_mara: APIClient, as_tomas: APIClient, agent: Agent, room: Room
) -> None:
    seats = f"{ROOMS}/{room.pk}/seats"
    assert [s["slug"] for s in as_tomas.get(seats).json()["results"]] == [agent.slug]
    # Tomas may not use the agent, so he cannot seat it, and is told no more than that.
    problem(as_tomas.post(seats, {"agent": agent.slug}), 404, "not_found")
    assert as_tomas.delete(f"{seats}/{agent.slug}").status_code == 204
    problem(as_tomas.delete(f"{seats}/{agent.slug}"), 404, "not_found")
    made = as_mara.post(seats, {"agent": agent.slug})
    assert (made.status_code, made.json()["name"]) == (201, agent.name)


def test_a_closed_room_is_read_and_never_changed(
    as_mara: APIClient, as_tomas: APIClient, agent: Agent, room: Room
) -> None:
    url = f"{ROOMS}/{room.pk}"
    problem(as_tomas.post(f"{url}/close"), 403, "forbidden")
    assert as_mara.post(f"{url}/close").json()["closed"] is True
    for path, body in (
        ("close", {}),
        ("messages", {"text": "Hello"}),
        ("participants", {"username": "x"}),
        ("seats", {"agent": agent.slug}),
        ("runs", {"agent": agent.slug}),
    ):
        problem(as_mara.post(f"{url}/{path}", body), 409, "room_closed")
    assert as_tomas.get(url).status_code == 200
    assert as_tomas.get(f"{url}/snapshot").status_code == 200
    assert as_tomas.get(f"{url}/events").status_code == 200


def test_events_are_read_behind_a_position(as_mara: APIClient, room: Room) -> None:
    url = f"{ROOMS}/{room.pk}/events"
    whole = as_mara.get(url).json()
    assert [event["position"] for event in whole["results"]] == list(
        range(1, whole["position"] + 1)
    )
    assert set(whole["results"][0]) == {"type", "position", "kind", "actor", "at", "data"}
    assert whole["results"][0]["kind"] == "participant.joined"
    part = as_mara.get(url, {"after": 1, "limit": 1}).json()
    assert part["results"] == whole["results"][1:2]
    assert as_mara.get(url, {"after": whole["position"]}).json()["results"] == []


@pytest.mark.parametrize(
    "query", ["after=-1", "after=x", "limit=0", "limit=501", "after=99999999999999999999"]
)
def test_positions_are_checked(as_mara: APIClient, room: Room, query: str) -> None:
    problem(as_mara.get(f"{ROOMS}/{room.pk}/events?{query}"), 422, "invalid")


def test_a_ticket_opens_one_socket(as_mara: APIClient, mara: User, room: Room) -> None:
    from apps.rooms.tickets import redeem_ticket

    made = as_mara.post(f"{ROOMS}/{room.pk}/ticket")
    assert made.status_code == 201
    body = made.json()
    assert body["expires_in"] == 30
    assert redeem_ticket(body["ticket"], room.pk) == mara
    assert redeem_ticket(body["ticket"], room.pk) is None


def test_the_snapshot_shows_the_present(as_tomas: APIClient, mara: User, room: Room) -> None:
    body = as_tomas.get(f"{ROOMS}/{room.pk}/snapshot").json()
    assert {"participants", "seats", "items", "runs", "calls", "artifacts", "streams"} <= set(body)
    assert mara.username in [person["username"] for person in body["participants"]]


def test_lists_cost_the_same_for_many_as_for_one(
    mara: User, room: Room, agent: Agent, django_assert_max_num_queries: Any
) -> None:
    from tests.factories.rooms import make_room

    for _ in range(5):
        make_room(mara, agent, make_member())
    client = client_of(mara)
    for path, most in (("rooms", 2), ("runs", 2), ("agents", 2), (f"rooms/{room.pk}/seats", 3)):
        with django_assert_max_num_queries(most):
            assert client.get(f"/api/v1/{path}").status_code == 200
