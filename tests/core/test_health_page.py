"""An administrator reads how every part is, in the sentences of the probes, and what mends it."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as loaded
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.core import health, health_page
from apps.core.health import Part, Word, look_around, note_sweep, register_part
from apps.core.tasks import sweep
from apps.sandbox.selectors import sandbox_state

pytestmark = pytest.mark.django_db
ADDRESS = "/admin/health/"
SANDBOX = Part(
    "sandbox",
    Word.OK,
    "Sandboxes run Python 3.",
    needed=False,
    in_force=("network: none", "walls"),
    missing=("No office runtime, so there.",),
    versions=(("python", "3.11.2"), ("node", "24.1.0")),
)


@pytest.fixture
def desk(client: Client) -> Client:
    """An administrator without any other duty."""
    client.force_login(User.objects.create_user("ines", is_staff=True))
    return client


@pytest.fixture
def alone() -> Iterator[None]:
    """Only the parts that core knows by itself, and those that a test registers."""
    before = list(health._more)
    health._more.clear()
    yield
    health._more[:] = before


@pytest.fixture
def unswept() -> Iterator[None]:
    """As if no worker had been there."""
    store = health._client(loaded.REDIS_URL)
    store.delete(health._SWEPT)
    yield
    store.delete(health._SWEPT)


def read(answer: Any) -> str:
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_whole_parts_are_told_with_what_holds_and_in_which_versions(
    desk: Client, alone: None
) -> None:
    register_part(lambda: SANDBOX)
    page = read(desk.get(ADDRESS))
    assert "Everything works" in page
    assert "Nothing is to be mended." in page
    assert "Nothing waits." in page
    for words in (SANDBOX.sentence, "none", "walls", *SANDBOX.missing, "24.1.0", "3.11.2"):
        assert words in page


def test_a_broken_part_is_named_first_with_what_mends_it(
    desk: Client, alone: None, settings: Any
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    register_part(lambda: Part("sandbox", Word.OFF, "No driver.", needed=False, mend="Get one."))
    page = read(desk.get(ADDRESS))
    assert "2 parts do not work: redis, sandbox" in page
    assert "Requests are not served until that is mended." in page
    assert page.index("Get one.") < page.index("No driver.")
    assert page.index("`make up` does") < page.index("Redis or Valkey does not answer.")


def test_page_probe_and_doctor_say_the_same(
    desk: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody-listens")
    page = read(desk.get(ADDRESS))
    told = desk.get("/readyz").json()
    assert set(told["details"]) == {part.name for part in look_around()}
    for part in look_around():
        assert part.sentence in page
        assert told["details"][part.name] == part.story
        assert part.mend in page
    doctor = sandbox_state()
    assert doctor.sentence in page
    assert doctor.mend in page
    assert doctor.mend in told["details"]["sandbox"]


def test_a_look_afresh_asks_closely_and_a_look_asks_as_probes_do(desk: Client, alone: None) -> None:
    asked = []

    def look(how: str) -> Part:
        asked.append(how)
        return SANDBOX

    register_part(lambda: look("quick"), close=lambda: look("close"))
    assert "quickly, as probes do" in read(desk.get(ADDRESS))
    assert "just now, every part" in read(desk.post(ADDRESS))
    desk.get("/readyz")
    assert asked == ["quick", "close", "quick"]


def test_only_administrators_look_and_only_from_our_own_pages(client: Client) -> None:
    for user in (None, User.objects.create_user("mara")):
        if user:
            client.force_login(user)
        for answer in (client.get(ADDRESS), client.post(ADDRESS)):
            assert (answer.status_code, "login" in answer.headers["Location"]) == (302, True)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.create_user("ines", is_staff=True))
    assert strict.post(ADDRESS).status_code == 403
    assert strict.delete(ADDRESS).status_code in (403, 405)


def test_every_administrator_finds_the_page_in_the_sidebar(desk: Client) -> None:
    assert f'href="{ADDRESS}"' in desk.get(reverse("admin:index")).content.decode()
    assert reverse("admin_health") == ADDRESS


def test_the_queries_are_as_many_however_much_waits(
    desk: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    desk.get(ADDRESS)
    with django_assert_num_queries(QUERIES):
        desk.get(ADDRESS)
    work = [("runs", 3, 2.5), ("calls", health_page.MOST_SHOWN, 7300.0), ("inputs", 0, 0.0)]
    monkeypatch.setattr(health_page, "waiting_work", lambda most: work)
    page = read(desk.get(ADDRESS))
    for words in ("runs", "2.5 s", "1,000 or more", "2 h"):
        assert words in page
    assert "inputs" not in page


QUERIES = 18
"""Who asks, the database itself, the tools, and one for each kind of work."""


def test_a_sweep_shows_that_beat_and_a_worker_are_there(unswept: None) -> None:
    assert health.workers_part().word is Word.AWAY
    assert "No worker has swept for an hour" in health.workers_part().sentence
    sweep()
    assert health.workers_part() == Part(
        "workers", Word.OK, "Beat rings, and a worker answers.", needed=False
    )


def test_workers_that_fell_silent_are_told_and_do_not_stop_requests(
    unswept: None, settings: Any
) -> None:
    note_sweep()
    store = health._client(loaded.REDIS_URL)
    store.expire(health._SWEPT, health._REMEMBERED_SECONDS - 90)
    part = health.workers_part()
    assert (part.word, part.holds) == (Word.AWAY, True)
    assert "for 90 s" in part.sentence
    assert "Start `beat` and the workers" in part.mend
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert health.workers_part().sentence == "Unknown while Redis or Valkey is away."
    sweep()  # that nobody can be told does not fail what was done
