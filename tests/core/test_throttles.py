"""Counting is exact, and while it is impossible nothing passes."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

from apps.core.errors import Unavailable
from apps.core.throttles import Limit, Throttled, give_back, spend
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def limit(embedded_services: None) -> Limit:
    return Limit(f"test-{uuid.uuid4().hex}", 3, 60)


def test_the_one_too_many_is_refused(limit: Limit) -> None:
    for _ in range(3):
        spend(limit, "mara")
    with pytest.raises(Throttled) as refused:
        spend(limit, "mara")
    assert 1 <= refused.value.extra["retry_after"] <= 60
    spend(limit, "tomas")


def test_what_is_given_back_can_be_spent_again(limit: Limit) -> None:
    for _ in range(10):
        spend(limit, "mara")
        give_back(limit, "mara")


def test_many_at_once_are_counted_exactly(limit: Limit) -> None:
    passed: list[bool] = []

    def try_it() -> None:
        try:
            spend(limit, "mara")
        except Throttled:
            passed.append(False)
        else:
            passed.append(True)

    threads = [threading.Thread(target=try_it) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 3


def test_a_window_ends(embedded_services: None) -> None:
    brief = Limit(f"test-{uuid.uuid4().hex}", 1, 1)
    spend(brief, "mara")
    with pytest.raises(Throttled):
        spend(brief, "mara")
    assert threading.Event().wait(1.1) is False
    spend(brief, "mara")


def test_without_its_store_a_throttle_refuses(settings: Any) -> None:
    settings.REDIS_URL = NOWHERE
    with pytest.raises(Unavailable):
        spend(Limit("test", 3, 60), "mara")
    give_back(Limit("test", 3, 60), "mara")


def test_without_its_store_the_api_refuses(db: None, settings: Any) -> None:
    client = client_of(make_member())
    assert client.get("/api/v1/rooms").status_code == 200
    settings.REDIS_URL = NOWHERE
    response: Any = client.get("/api/v1/rooms")
    problem(response, 503, "unavailable")
    assert response["Retry-After"]


def test_a_member_sends_so_many_requests_a_minute(db: None, settings: Any) -> None:
    settings.KAIZEN_API_PER_MINUTE = 2
    client = client_of(make_member())
    assert [client.get("/api/v1/auth/me").status_code for _ in range(2)] == [200, 200]
    response: Any = client.get("/api/v1/auth/me")
    problem(response, 429, "throttled")
    assert int(response["Retry-After"]) >= 1
    # Somebody else is counted apart.
    assert client_of(make_member()).get("/api/v1/auth/me").status_code == 200
