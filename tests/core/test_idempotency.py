"""A creation that is sent twice happens once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.core.api.idempotency import forget_old_keys
from apps.core.models import IdempotencyKey
from apps.rooms.models import Room
from apps.rooms.services import create_room
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_agent, make_member, make_room

ROOMS = "/api/v1/rooms"


def make(client: APIClient, key: str | None, name: str = "Plans") -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    return client.post(ROOMS, {"name": name}, headers=headers)


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


@pytest.fixture
def client(mara: User) -> APIClient:
    return client_of(mara)


def test_a_repeat_is_answered_as_the_first_was(client: APIClient) -> None:
    first, again = make(client, "k1"), make(client, "k1")
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert "Idempotent-Replay" not in first.headers
    assert again.headers["Idempotent-Replay"] == "true"
    assert Room.objects.count() == 1


def test_without_a_key_each_request_makes_something(client: APIClient) -> None:
    assert make(client, None).json()["id"] != make(client, None).json()["id"]


def test_the_same_key_for_another_body_is_refused(client: APIClient) -> None:
    make(client, "k1")
    problem(make(client, "k1", "Other plans"), 409, "idempotency_mismatch")
    assert Room.objects.count() == 1


def test_bodies_are_compared_by_value_not_by_bytes(client: APIClient) -> None:
    for raw in (b'{"name":"Plans"}', b' { "name" : "Pl\\u0061ns" } '):
        response = client.generic(
            "POST", ROOMS, raw, content_type="application/json", headers={"idempotency-key": "k"}
        )
        assert response.status_code == 201
    assert Room.objects.count() == 1


def test_keys_belong_to_their_member_and_address(client: APIClient, mara: User) -> None:
    make(client, "k1")
    assert "Idempotent-Replay" not in make(client_of(make_member()), "k1").headers
    room = make_room(mara)
    guest = make_member()
    response = client.post(
        f"{ROOMS}/{room.pk}/participants",
        {"username": guest.username},
        headers={"idempotency-key": "k1"},
    )
    assert response.status_code == 201
    assert "Idempotent-Replay" not in response.headers


def test_a_refused_creation_may_be_tried_again(client: APIClient) -> None:
    make(client, "k1", "   ")
    assert not IdempotencyKey.objects.exists()
    assert make(client, "k1").status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", "ключ"])
def test_a_key_is_printable_and_bounded(client: APIClient, key: str) -> None:
    response = client.generic(
        "POST",
        ROOMS,
        b'{"name":"Plans"}',
        content_type="application/json",
        HTTP_IDEMPOTENCY_KEY=key,
    )
    assert problem(response, 422, "invalid")["field"] == "Idempotency-Key"


def test_a_secret_is_never_kept(client: APIClient, mara: User) -> None:
    agent = make_agent(mara)
    room = make_room(mara, agent)
    send = {"path": f"{ROOMS}/{room.pk}/runs", "data": {"agent": agent.slug}}
    first = client.post(**send, headers={"idempotency-key": "k"}).json()
    again = client.post(**send, headers={"idempotency-key": "k"}).json()
    assert first["token"]
    assert again == {**first, "token": None}
    assert first["token"] not in str(list(IdempotencyKey.objects.values()))


def test_keys_are_forgotten_after_a_day(client: APIClient) -> None:
    first = make(client, "k1").json()
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert make(client, "k1").json()["id"] != first["id"]
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert forget_old_keys() == 1
    assert not IdempotencyKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_makes_and_the_other_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.rooms.api import views

    mara = make_member()
    inside, go_on = threading.Event(), threading.Event()

    def slowly(**kwargs: Any) -> Room:
        inside.set()
        assert go_on.wait(10)
        return create_room(**kwargs)

    monkeypatch.setattr(views, "create_room", slowly)
    answers: list[Any] = []

    def send(client: APIClient) -> None:
        try:
            answers.append(make(client, "k1"))
        finally:
            connection.close()

    first = threading.Thread(target=send, args=(client_of(mara),))
    client = client_of(mara)
    first.start()
    assert inside.wait(10)
    problem(make(client, "k1"), 409, "in_progress")
    go_on.set()
    first.join(10)
    assert answers[0].status_code == 201
    replay = make(client, "k1")
    assert replay.json() == answers[0].json()
    assert Room.objects.count() == 1
