"""One page of numbers, right over all processes, and for nobody who has no business with it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings as configured
from django.db import transaction
from django.test import Client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from apps.accounts.models import User
from apps.core import counted, metrics
from apps.core.counted import Board, families
from apps.runs.models import Run
from apps.runs.services import finish_run
from tests.factories.rooms import (
    claimed_run,
    crossed,
    make_agent,
    make_member,
    make_room,
)

TOKEN = "a-token-for-the-scraper"


@pytest.fixture
def prefix(embedded_services: None) -> Iterator[str]:
    """A place of this test's own among the totals."""
    prefix = f"kaizen:test-metrics:{uuid.uuid4().hex}"
    yield prefix
    store = redis.Redis.from_url(configured.REDIS_URL)
    for key in store.scan_iter(f"{prefix}:*"):
        store.delete(key)
    store.close()


@pytest.fixture
def apart(prefix: str, monkeypatch: pytest.MonkeyPatch) -> Board:
    """The product's own counters, laid down where nobody else's are."""
    board = Board(metrics.registry, prefix=prefix)
    monkeypatch.setattr(metrics, "board", board)
    return board


class Counting:
    """A process that counts, as the product's do."""

    def __init__(self, prefix: str) -> None:
        self.registry = CollectorRegistry()
        self.letters = Counter("letters", "Letters.", ["to"], registry=self.registry)
        self.open = Gauge("open_doors", "Doors.", registry=self.registry)
        self.seconds = Histogram("walk", "Walks.", buckets=(1.0, 10.0), registry=self.registry)
        self.board = Board(self.registry, prefix=prefix)

    def read(self) -> dict[str, float]:
        return {
            sample.name + "".join(sample.labels.values()): sample.value
            for metric in families(self.registry, self.board.gather())
            for sample in metric.samples
        }


# --- over processes


def test_what_processes_count_is_added_up(prefix: str) -> None:
    first, second = Counting(prefix), Counting(prefix)
    first.letters.labels("anna").inc(2)
    second.letters.labels("anna").inc(3)
    second.letters.labels("tom").inc()
    first.open.set(4)
    second.open.set(5)
    second.seconds.observe(3)
    second.board.lay_down()
    told = first.read()
    assert told["letters_totalanna"] == 5
    assert told["letters_totaltom"] == 1
    assert told["open_doors"] == 9
    assert [told[f"walk_bucket{bound}"] for bound in ("1.0", "10.0", "+Inf")] == [0, 1, 1]
    assert (told["walk_count"], told["walk_sum"]) == (1, 3)


def test_laying_down_twice_counts_once(prefix: str) -> None:
    one = Counting(prefix)
    one.letters.labels("anna").inc()
    for _ in range(3):
        one.board.lay_down()
    assert one.read()["letters_totalanna"] == 1


def test_an_ended_process_is_still_counted_and_its_gauges_are_not(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, here = Counting(prefix), Counting(prefix)
    gone.letters.labels("anna").inc(2)
    gone.open.set(7)
    gone.board.lay_down()
    here.letters.labels("anna").inc()
    # Everybody who is not laying down at this very moment is silent for too long.
    monkeypatch.setattr(counted, "SILENT_MS", -60_000)
    here.board.gather()
    monkeypatch.setattr(counted, "SILENT_MS", 60_000)
    for _ in range(2):
        told = here.read()
        assert told["letters_totalanna"] == 3
        assert told["open_doors"] == 0


def test_a_process_that_was_taken_for_ended_and_goes_on_is_counted_once(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, here = Counting(prefix), Counting(prefix)
    slow.letters.labels("anna").inc(2)
    slow.open.set(1)
    slow.board.lay_down()
    monkeypatch.setattr(counted, "SILENT_MS", -60_000)
    here.board.gather()
    monkeypatch.setattr(counted, "SILENT_MS", 60_000)
    slow.letters.labels("anna").inc()
    for _ in range(2):
        slow.board.lay_down()
    told = here.read()
    assert told["letters_totalanna"] == 3
    assert told["open_doors"] == 1


def test_a_store_that_lost_everything_gets_the_living_processes_totals_again(prefix: str) -> None:
    one = Counting(prefix)
    one.letters.labels("anna").inc(2)
    one.board.lay_down()
    store = redis.Redis.from_url(configured.REDIS_URL)
    for key in store.scan_iter(f"{prefix}:*"):
        store.delete(key)
    assert one.read()["letters_totalanna"] == 2


PROGRAM = """
    import os, sys
    from apps.core import metrics
    from apps.core.counted import Board
    metrics.board = Board(metrics.registry, prefix=sys.argv[1])
    for _ in range(1000):
        metrics.count_call(
            tool="about", known=True, capability="docs.read", outcome="ok",
            reason="", domain="", seconds=0.1, execution_seconds=0.1,
        )
    if sys.argv[2] == "fork":
        child = os.fork()
        if child == 0:
            metrics.CALLS.labels("about", "docs.read", "ok").inc(10)
            metrics.board.lay_down()
            os._exit(0)
        os.waitpid(child, 0)
    if sys.argv[2] == "killed":
        metrics.board.lay_down()
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("how", "counted_calls"), [("ends", 3000), ("fork", 3030)])
def test_separate_processes_count_into_one_page(
    prefix: str, apart: Board, how: str, counted_calls: int
) -> None:
    """Also where a process forks, whose child has its parent's numbers in memory."""
    before = calls_of(apart, "about", "ok")
    running = [_process(prefix, how) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert calls_of(apart, "about", "ok") - before == counted_calls


def test_what_a_killed_process_had_laid_down_stays(prefix: str, apart: Board) -> None:
    before = calls_of(apart, "about", "ok")
    assert _process(prefix, "killed").wait(60) == -9
    assert calls_of(apart, "about", "ok") - before == 1000


def _process(prefix: str, how: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), prefix, how],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "kaizen.settings"},
    )


def calls_of(board: Board, tool: str, outcome: str) -> float:
    sums = board.gather()
    return sum(
        value
        for (_, (metric, _, labels)), value in sums.items()
        if metric == "kaizen_calls" and {("tool", tool), ("outcome", outcome)} <= set(labels)
    )


# --- what is counted


@pytest.fixture
def run(transactional_db: Any) -> Run:
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent), agent, member)


def told(board: Board) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for metric in families(metrics.registry, board.gather())
        for sample in metric.samples
    }


@pytest.mark.django_db(transaction=True)
def test_every_call_counts_one_outcome_by_tool_and_capability(run: Run, apart: Board) -> None:
    note = {"title": "A note", "kind": "markdown", "body": "# Hello"}
    before = told(apart)
    crossed(run, "create_artifact", note)
    crossed(run, "create_artifact", note, step=2)
    crossed(run, "create_artifact", "{", step=3)
    crossed(run, "rm_rf_everything", {}, step=4)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        crossed(run, "create_artifact", {**note, "title": "Rolled back"}, step=5)
        raise ZeroDivisionError
    finish_run(run=run, outcome="completed")
    after = told(apart)
    gained = {
        name: value - before.get(name, 0)
        for name, value in after.items()
        if value != before.get(name, 0)
    }

    def calls(tool: str, capability: str, outcome: str) -> float:
        labels = [("capability", capability), ("outcome", outcome), ("tool", tool)]
        return gained.get(f"kaizen_calls_total{labels}", 0)

    assert calls("create_artifact", "artifacts.write", "ok") == 1
    assert calls("create_artifact", "artifacts.write", "suppressed") == 1
    assert calls("create_artifact", "artifacts.write", "refused") == 1
    assert calls("unknown", "unknown", "refused") == 1
    assert "rm_rf" not in str(gained)
    failure = [("domain", "caller"), ("reason", "invalid_arguments")]
    assert gained[f"kaizen_call_failures_total{failure}"] == 1
    waited = [("capability", "artifacts.write"), ("outcome", "ok")]
    assert gained[f"kaizen_call_seconds_count{waited}"] == 1
    assert gained[f"kaizen_execution_seconds_count{[('tool', 'create_artifact')]}"] == 1
    assert gained[f"kaizen_runs_total{[('outcome', 'completed')]}"] == 1


def test_package_tools_are_named_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_named", set())
    labels = {metrics.tool_label(f"pkg_{number}_do", known=True) for number in range(500)}
    assert len(labels) == metrics.MAX_PACKAGE_TOOLS + 1
    assert metrics.OTHER_PACKAGE_TOOL in labels
    assert metrics.tool_label("pkg_0_do", known=True) == "pkg_0_do"
    assert metrics.tool_label("read_artifact", known=True) == "read_artifact"
    assert metrics.tool_label("invented-by-a-model", known=False) == "unknown"


# --- the page


@pytest.fixture
def administrator(transactional_db: Any) -> User:
    return User.objects.create_superuser(username="root", password="a long enough secret")


def scraped(client: Client, **headers: str) -> dict[str, Any]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=")
    text = answer.content.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.django_db(transaction=True)
def test_the_page_says_how_everything_stands(run: Run, apart: Board, settings: Any) -> None:
    settings.KAIZEN_METRICS_TOKEN = TOKEN
    page = scraped(Client(), Authorization=f"Bearer {TOKEN}")
    for name in (
        "kaizen_calls",
        "kaizen_call_failures",
        "kaizen_call_seconds",
        "kaizen_execution_seconds",
        "kaizen_approvals",
        "kaizen_approvals_waiting",
        "kaizen_calls_paused",
        "kaizen_approvals_oldest_seconds",
        "kaizen_runs",
        "kaizen_runs_open",
        "kaizen_calls_open",
        "kaizen_queue_ready",
        "kaizen_queue_oldest_seconds",
        "kaizen_rooms_open",
        "kaizen_rooms_participants",
        "kaizen_rooms_sockets",
        "kaizen_rooms_viewers",
        "kaizen_rooms_watched",
        "kaizen_stream_drops",
        "kaizen_provider_failures",
        "kaizen_audit_unsealed_rows",
        "kaizen_audit_seal_age_seconds",
        "kaizen_part_ready",
        "kaizen_metrics_complete",
    ):
        assert name in page, name
    by_label = {sample.labels["state"]: sample.value for sample in page["kaizen_runs_open"].samples}
    assert by_label == {"queued": 0, "running": 1, "parked": 0}
    assert page["kaizen_metrics_complete"].samples[0].value == 1
    assert page["kaizen_audit_unsealed_rows"].samples[0].value > 0
    parts = {sample.labels["part"] for sample in page["kaizen_part_ready"].samples}
    assert {"database", "redis", "sandbox"} <= parts


@pytest.mark.django_db(transaction=True)
def test_nobody_reads_the_page_by_default(administrator: User, apart: Board, settings: Any) -> None:
    assert not settings.KAIZEN_METRICS_TOKEN
    assert Client().get("/metrics").status_code == 404
    assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404
    member = Client()
    member.force_login(make_member("mara"))
    assert member.get("/metrics").status_code == 404
    operator = Client()
    operator.force_login(administrator)
    assert scraped(operator)


@pytest.mark.django_db(transaction=True)
def test_a_wrong_token_reads_nothing(apart: Board, settings: Any) -> None:
    settings.KAIZEN_METRICS_TOKEN = TOKEN
    for given in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"):
        answer = Client().get("/metrics", headers={"Authorization": given} if given else {})
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"] == "Bearer"
    assert Client().post("/metrics").status_code == 405


@pytest.mark.django_db(transaction=True)
def test_without_redis_the_page_says_that_it_is_not_complete(apart: Board, settings: Any) -> None:
    settings.KAIZEN_METRICS_TOKEN = TOKEN
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    page = scraped(Client(), Authorization=f"Bearer {TOKEN}")
    assert page["kaizen_metrics_complete"].samples[0].value == 0
    assert "kaizen_calls" in page
