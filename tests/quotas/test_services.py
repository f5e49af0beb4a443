"""Use is reserved before anything happens, settled from evidence, and never counted twice."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.domain.quotas import Subject, Unit
from apps.domain.tooling import Outcome
from apps.quotas.errors import QuotaExceeded
from apps.quotas.models import Meter, Price, Quota, Reservation
from apps.quotas.selectors import left_behind, usage_of
from apps.quotas.services import (
    ModelUse,
    close_call,
    close_left_behind,
    forget_old,
    reserve_call,
    reserve_step,
    settle_step,
)
from apps.rooms.models import Room
from apps.runs.claims import claim_run, fenced
from apps.runs.models import Call, Run
from apps.runs.services import finish_run, settle_call
from tests.factories.clients import client_of
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room, proposed

pytestmark = pytest.mark.django_db(transaction=True)
ESTIMATE = ModelUse(tokens_in=900, tokens_out=100)


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    return claimed_run(room, agent, member)


def limited(unit: Unit, period: str, most: int, **whose: Any) -> Quota:
    subject = Subject.AGENT if whose.pop("agents", False) or "agent" in whose else Subject.MEMBER
    return Quota.objects.create(
        subject=subject.value, unit=unit.value, period=period, most=most, **whose
    )


def use_of(member: User, unit: str, period: str = "day") -> tuple[int, int]:
    found = next(u for u in usage_of(member) if (u.unit, u.period) == (unit, period))
    return found.used, found.held


def a_call(run: Run, place: int = 0) -> Call:
    return proposed(run, "list_available_agents", {}, place=place)


def step(run: Run, estimate: ModelUse = ESTIMATE, model_name: str = "small") -> Reservation:
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        return reserve_step(run=locked, model_name=model_name, estimate=estimate)


# --- reserve


def test_a_call_is_held_for_member_and_agent_before_anything_happens(
    run: Run, member: User, agent: Agent
) -> None:
    held = reserve_call(run=run, call=a_call(run))
    assert (held.state, held.reserved) == ("held", {"running": 1, "calls": 1})
    assert held.correlation_id == run.correlation_id
    assert use_of(member, "calls") == use_of(member, "calls", "month") == (0, 1)
    assert use_of(member, "running", "now") == (0, 1)
    assert set(Meter.objects.values_list("subject", "subject_id")) == {
        ("member", str(member.pk)),
        ("agent", str(agent.pk)),
    }


@pytest.mark.parametrize("agents", [False, True])
@pytest.mark.parametrize("period", ["day", "month"])
def test_a_spent_quota_holds_nothing_more_and_says_when_it_renews(
    run: Run, member: User, agents: bool, period: str
) -> None:
    limited(Unit.CALLS, period, 1, agents=agents)
    reserve_call(run=run, call=a_call(run))
    with pytest.raises(QuotaExceeded) as full:
        reserve_call(run=run, call=a_call(run, place=1))
    assert full.value.code == "quota_exceeded"
    assert full.value.renews_at is not None
    assert full.value.renews_at > datetime.now(UTC)
    assert "It renews on" in str(full.value)
    assert ("Scribe" if agents else member.name) in str(full.value)
    # Nothing of what was refused stays behind.
    assert use_of(member, "calls") == (0, 1)
    assert Reservation.objects.count() == 1


def test_ones_own_limit_stands_before_that_of_everybody(run: Run, member: User) -> None:
    limited(Unit.CALLS, "day", 0)
    limited(Unit.CALLS, "day", 1, member=member)
    limited(Unit.CALLS, "day", 0, member=make_member("tomas"))
    reserve_call(run=run, call=a_call(run))
    with pytest.raises(QuotaExceeded):
        reserve_call(run=run, call=a_call(run, place=1))


def test_what_runs_at_once_is_bounded_and_frees_itself(run: Run) -> None:
    limited(Unit.RUNNING, "now", 1)
    call = a_call(run)
    reserve_call(run=run, call=call)
    with pytest.raises(QuotaExceeded) as full:
        step(run)
    assert full.value.renews_at is None
    close_call(call=call)
    assert step(run).state == "held"


def test_of_many_at_once_exactly_as_many_as_the_quota_holds_get_in(run: Run, member: User) -> None:
    limited(Unit.CALLS, "day", 5)
    limited(Unit.CALLS, "day", 7, agents=True)
    calls = [a_call(run, place=place) for place in range(16)]
    barrier = threading.Barrier(len(calls))
    got: list[bool] = []

    def try_to(call: Call) -> None:
        barrier.wait()
        try:
            with transaction.atomic():
                reserve_call(run=run, call=call)
            got.append(True)
        except QuotaExceeded:
            got.append(False)
        finally:
            connection.close()

    threads = [threading.Thread(target=try_to, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 11 + [True] * 5
    assert use_of(member, "calls") == (0, 5)


def test_opening_and_closing_at_once_leaves_every_meter_at_what_was_used(
    run: Run, member: User
) -> None:
    Price.objects.create(model_name="", input_price=1_000_000, output_price=1_000_000)
    calls = [a_call(run, place=place) for place in range(8)]
    barrier = threading.Barrier(len(calls))
    failures: list[BaseException] = []

    def go(call: Call) -> None:
        barrier.wait()
        try:
            for _ in range(3):
                with transaction.atomic():
                    reserve_call(run=run, call=call)
                with transaction.atomic():
                    close_call(call=call)
                Reservation.objects.filter(call=call).update(call=None)
        except BaseException as failed:  # noqa: BLE001 - whatever it is, the test has to see it
            failures.append(failed)
        finally:
            connection.close()

    threads = [threading.Thread(target=go, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert use_of(member, "calls") == (24, 0)
    assert use_of(member, "running", "now") == (0, 0)


# --- settle


def test_a_model_step_is_settled_from_what_its_provider_reports(run: Run, member: User) -> None:
    Price.objects.create(model_name="small", input_price=3_000_000, output_price=15_000_000)
    Price.objects.create(model_name="", input_price=99_000_000, output_price=99_000_000)
    held = step(run)
    assert use_of(member, "tokens") == (0, 1000)
    assert use_of(member, "money") == (0, 4200)
    settle_step(reservation_id=held.pk, usage=ModelUse(tokens_in=500, tokens_out=20))
    assert use_of(member, "tokens") == use_of(member, "tokens", "month") == (520, 0)
    assert use_of(member, "money") == (1800, 0)
    assert use_of(member, "running", "now") == (0, 0)
    held.refresh_from_db()
    assert (held.state, held.used) == ("settled", {"tokens": 520, "money": 1800})


def test_a_model_step_may_use_more_than_was_estimated(run: Run, member: User) -> None:
    limited(Unit.TOKENS, "day", 1000)
    held = step(run)
    settle_step(reservation_id=held.pk, usage=ModelUse(tokens_in=5000, tokens_out=5000))
    assert use_of(member, "tokens") == (10_000, 0)
    with pytest.raises(QuotaExceeded):
        step(run)


def test_without_evidence_a_reservation_stands(run: Run, member: User) -> None:
    held = step(run)
    settle_step(reservation_id=held.pk, usage=None)
    assert use_of(member, "tokens") == (1000, 0)
    held.refresh_from_db()
    assert held.state == "stands"


def test_what_the_provider_never_took_up_is_given_back(run: Run, member: User) -> None:
    held = step(run)
    settle_step(reservation_id=held.pk, usage=None, served=False)
    assert use_of(member, "tokens") == (0, 0)
    held.refresh_from_db()
    assert held.state == "released"


def test_a_reservation_is_closed_once(run: Run, member: User) -> None:
    held = step(run)
    for _ in range(3):
        settle_step(reservation_id=held.pk, usage=ModelUse(tokens_in=1, tokens_out=1))
    settle_step(reservation_id=held.pk, usage=None)
    assert use_of(member, "tokens") == (2, 0)


def test_what_began_last_month_was_used_last_month(run: Run, member: User) -> None:
    held = step(run)
    for meter in Meter.objects.exclude(span="now"):
        meter.span = "2020-02-29" if len(meter.span) == 10 else "2020-02"
        meter.save()
    Reservation.objects.filter(pk=held.pk).update(reserved_at=datetime(2020, 2, 29, tzinfo=UTC))
    settle_step(reservation_id=held.pk, usage=ModelUse(tokens_in=7, tokens_out=0))
    assert use_of(member, "tokens") == use_of(member, "tokens", "month") == (0, 0)
    used = Meter.objects.filter(subject="member", unit="tokens").values_list("span", "used")
    assert dict(used) == {"2020-02-29": 7, "2020-02": 7}
    assert not Meter.objects.exclude(held=0).exists()


# --- after a crash


def swept() -> int:
    ids = list(left_behind(100))
    for ident in ids:
        close_left_behind(reservation_id=ident)
    return len(ids)


def test_while_its_worker_holds_the_run_a_step_stays_held(run: Run) -> None:
    step(run)
    assert swept() == 0


def test_a_worker_that_died_while_the_model_spoke_leaves_a_step_that_stands(
    run: Run, member: User
) -> None:
    step(run)
    Run.objects.filter(pk=run.pk).update(claim_expires_at="2020-01-01T00:00Z")
    claim_run(run_id=run.pk, worker="another")
    assert swept() == 1
    assert swept() == 0
    assert use_of(member, "running", "now") == (0, 0)
    assert use_of(member, "tokens") == (1000, 0)


def test_whoever_takes_a_run_over_closes_what_was_left_before_asking_again(
    run: Run, member: User
) -> None:
    limited(Unit.RUNNING, "now", 1)
    step(run)
    Run.objects.filter(pk=run.pk).update(claim_expires_at="2020-01-01T00:00Z")
    fence = claim_run(run_id=run.pk, worker="another")
    with fenced(run_id=run.pk, fence=fence or 0) as locked:
        reserve_step(run=locked, model_name="small", estimate=ESTIMATE)
    assert use_of(member, "running", "now") == (0, 1)
    assert use_of(member, "tokens") == (1000, 1000)


def test_a_late_report_of_an_overtaken_worker_changes_nothing(run: Run, member: User) -> None:
    held = step(run)
    Run.objects.filter(pk=run.pk).update(claim_expires_at="2020-01-01T00:00Z")
    claim_run(run_id=run.pk, worker="another")
    swept()
    settle_step(reservation_id=held.pk, usage=ModelUse(tokens_in=1, tokens_out=1))
    assert use_of(member, "tokens") == (1000, 0)


def test_a_finished_run_or_a_removed_room_leaves_nothing_held(
    run: Run, member: User, room: Room
) -> None:
    step(run)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        finish_run(run=locked, outcome="completed")
    assert swept() == 1
    Reservation.objects.all().delete()
    again = claimed_run(room, run.agent, member)
    reserve_call(run=again, call=a_call(again))
    Room.objects.filter(pk=room.pk).delete()
    assert swept() == 1
    assert use_of(member, "running", "now") == (0, 0)


def test_a_settled_call_whose_hold_was_forgotten_is_swept(run: Run, member: User) -> None:
    call = a_call(run)
    reserve_call(run=run, call=call)
    assert swept() == 0
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        settle_call(run=locked, call=call, outcome=Outcome.OK)
    assert swept() == 1
    assert use_of(member, "calls") == (1, 0)


def test_what_is_old_is_forgotten_and_what_is_held_is_not(run: Run) -> None:
    held = step(run)
    settle_step(reservation_id=held.pk, usage=None)
    Reservation.objects.update(closed_at="2020-01-01T00:00Z")
    Meter.objects.update(updated_at="2020-01-01T00:00Z")
    Meter.objects.filter(unit="running").update(held=1)
    forget_old()
    assert not Reservation.objects.exists()
    assert set(Meter.objects.values_list("unit", flat=True)) == {"running"}


# --- what a member sees


def test_a_member_sees_their_own_use_and_nobody_elses(run: Run, member: User) -> None:
    limited(Unit.TOKENS, "day", 5000)
    limited(Unit.RUNNING, "now", 3, member=member)
    step(run)
    answer = client_of(member).get("/api/v1/usage")
    assert answer.status_code == 200
    usage = {(use["unit"], use["period"]): use for use in answer.json()["usage"]}
    tokens = usage["tokens", "day"]
    assert (tokens["used"], tokens["held"], tokens["limit"]) == (0, 1000, 5000)
    assert tokens["renews_at"].endswith("T00:00:00Z")
    running = usage["running", "now"]
    assert (running["held"], running["limit"], running["renews_at"]) == (1, 3, None)
    assert usage["calls", "month"]["limit"] is None
    other = client_of(make_member("tomas")).get("/api/v1/usage").json()["usage"]
    assert all(use["used"] == use["held"] == 0 for use in other)
    assert {use["limit"] for use in other} == {5000, None}
