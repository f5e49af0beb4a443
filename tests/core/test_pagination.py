"""Pages hold every row once, in one order, whatever happens between two of them."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.rooms.models import Room
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member, make_room

ROOMS = "/api/v1/rooms"


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


@pytest.fixture
def client(mara: User) -> APIClient:
    return client_of(mara)


def walk(client: APIClient, url: str | None, way: str = "next") -> list[list[str]]:
    pages = []
    while url is not None:
        body = client.get(url).json()
        pages.append([row["id"] for row in body["results"]])
        url = body[way]
    return pages


def test_an_empty_list_is_one_empty_page(client: APIClient) -> None:
    assert client.get(ROOMS).json() == {"next": None, "previous": None, "results": []}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_pages_cover_everything_once_forth_and_back(
    mara: User, client: APIClient, count: int
) -> None:
    rooms = [str(make_room(mara).pk) for _ in range(count)]
    pages = walk(client, f"{ROOMS}?page_size=2")
    assert [ident for page in pages for ident in page] == rooms[::-1]
    assert all(len(page) == 2 for page in pages[:-1])
    last = f"{ROOMS}?page_size=2"
    while (body := client.get(last).json())["next"] is not None:
        last = body["next"]
    assert walk(client, last, "previous")[::-1] == pages


def test_rows_of_the_same_moment_are_neither_skipped_nor_doubled(
    mara: User, client: APIClient
) -> None:
    for _ in range(7):
        make_room(mara)
    Room.objects.update(created_at=datetime(2026, 1, 1, tzinfo=UTC))
    found = [ident for page in walk(client, f"{ROOMS}?page_size=3") for ident in page]
    assert len(found) == len(set(found)) == 7


def test_a_row_made_meanwhile_shifts_nothing(mara: User, client: APIClient) -> None:
    old = [str(make_room(mara).pk) for _ in range(4)]
    first = client.get(f"{ROOMS}?page_size=2").json()
    make_room(mara)
    second = client.get(first["next"]).json()
    assert [r["id"] for r in first["results"] + second["results"]] == old[::-1]


@pytest.mark.parametrize("size", ["0", "-1", "101", "1000", "x", "", "1.5", "١"])
def test_a_page_size_outside_its_bounds_is_refused(client: APIClient, size: str) -> None:
    body = problem(client.get(f"{ROOMS}?page_size={size}"), 422, "invalid")
    assert body["field"] == "page_size"


@pytest.mark.parametrize("size", ["1", "100"])
def test_a_page_size_at_its_bounds_is_taken(client: APIClient, size: str) -> None:
    assert client.get(f"{ROOMS}?page_size={size}").status_code == 200


@pytest.mark.parametrize("cursor", ["x", "", "a:b:c", "eyJ9", "%00"])
def test_a_made_up_cursor_is_refused(client: APIClient, cursor: str) -> None:
    body = problem(client.get(f"{ROOMS}?cursor={cursor}"), 422, "invalid")
    assert body["field"] == "cursor"


def test_a_cursor_is_good_for_its_own_list_only(mara: User, client: APIClient) -> None:
    for _ in range(2):
        make_room(mara)
    link = client.get(f"{ROOMS}?page_size=1").json()["next"]
    cursor = parse_qs(urlsplit(link).query)["cursor"][0]
    problem(client.get("/api/v1/runs", {"cursor": cursor}), 422, "invalid")
