"""Probes say that, and which part; only administrators hear why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from apps.core import health
from apps.core.health import Part, Word
from tests.factories.rooms import make_member


@pytest.fixture
def parts() -> Iterator[list[object]]:
    before = list(health._more)
    health._more.clear()
    yield health._more  # type: ignore[misc]
    health._more[:] = before


def test_a_living_process_says_so() -> None:
    response = Client().get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert Client().post("/healthz").status_code == 405


def test_ready_means_every_part(db: None, parts: list[object]) -> None:
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "parts": {"database": "ok", "migrations": "ok", "redis": "ok"},
    }


def test_an_absent_redis_is_named(db: None, parts: list[object], settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["redis"] == "away"
    assert "details" not in response.json()


def test_an_absent_database_is_named(
    db: None, parts: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        raise DatabaseError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(health.connection, "cursor", gone)
        response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["database"] == "away"
    assert response.json()["parts"]["migrations"] == "away"
    assert b"secret" not in response.content


def test_only_administrators_hear_why(db: None, parts: list[object]) -> None:
    health.register_part(lambda: Part("sandbox", Word.OFF, "No driver: a sentence.", needed=False))
    client = Client()
    client.force_login(make_member())
    assert "details" not in client.get("/readyz").json()
    boss = make_member()
    boss.is_staff = True
    boss.save()
    client.force_login(boss)
    response = client.get("/readyz")
    # A part that is not needed does not make the whole unready.
    assert response.status_code == 200
    assert response.json()["parts"]["sandbox"] == "off"
    assert response.json()["details"]["sandbox"] == "No driver: a sentence."


def test_an_absent_sandbox_is_told_and_does_not_stop_the_rest(
    db: None, tmp_path: Any, settings: Any
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody-listens")
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json()["parts"]["sandbox"] == "off"


def test_every_part_is_told_whatever_else_is_away(
    db: None, parts: list[object], settings: Any
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    health.register_part(lambda: Part("sandbox", Word.OFF, "No driver: a sentence.", needed=False))
    boss = make_member()
    boss.is_staff = True
    boss.save()
    client = Client()
    client.force_login(boss)
    body = client.get("/readyz").json()
    assert (
        set(body["parts"])
        == set(body["details"])
        == {
            "database",
            "migrations",
            "redis",
            "sandbox",
        }
    )
    assert all(sentence.endswith(".") for sentence in body["details"].values())


def test_being_alive_asks_nobody(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    # No fixture of the database: a query would fail the test.
    assert Client().get("/healthz").status_code == 200
