"""How is use reserved before anything is done outside, and settled from what is known after?

A reservation is made in the transaction that lets something begin: under its lock, before any
provider or outside system hears of it. It is closed once. What was really used is believed only
from the one who knows: the call's own end, or the usage that the model's provider reports. Without
that the reservation stands. Whatever a crash left behind is closed by a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import UUIDField
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.services import record
from apps.core.prepared import Change, Given, Prepared, given_fields, insert
from apps.domain.quotas import Subject, Unit, cost, exceeded, told
from apps.quotas.errors import NotALimit, QuotaExceeded
from apps.quotas.meters import Amounts, Subjects, move
from apps.quotas.models import Meter, Price, Quota, Reservation
from apps.quotas.selectors import left_behind, limits_for, price_of
from apps.quotas.spans import renews_at
from apps.runs.models import Call, Run

KEEP_RESERVATIONS = timedelta(days=92)
KEEP_METERS = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What a step with a model takes: as estimated before, or as its provider reports after."""

    tokens_in: int
    tokens_out: int


def reserve_call(*, run: Run, call: Call) -> Reservation:
    """Hold one call outside. Run and call are locked, and nothing has been done yet."""
    return _reserve(
        run=run,
        kind=Reservation.Kind.CALL,
        amounts={Unit.RUNNING: 1, Unit.CALLS: 1},
        call=call,
    )


def reserve_step(*, run: Run, model_name: str, estimate: ModelUse) -> Reservation:
    """Hold one step with a model, before it is asked. The run is locked by its fence.

    What an earlier worker left open for this run is closed first: it is not asking any more.
    """
    open_before = Reservation.objects.filter(
        run=run, kind=Reservation.Kind.MODEL, state=Reservation.State.HELD
    )
    for left in open_before:
        _close(left, used=None)
    return _reserve(
        run=run,
        kind=Reservation.Kind.MODEL,
        amounts=_amounts(model_name, estimate),
        model_name=model_name,
    )


@transaction.atomic
def settle_step(*, reservation_id: Any, usage: ModelUse | None, served: bool = True) -> None:
    """Close the hold of a step with a model.

    Only what its provider reports counts as evidence. Without a report the reservation stands,
    unless the provider certainly never took the question up.
    """
    held = Reservation.objects.filter(pk=reservation_id, state=Reservation.State.HELD).first()
    if held is None:
        return
    if not served:
        _close(held, used={}, state=Reservation.State.RELEASED)
    elif usage is None:
        _close(held, used=None)
    else:
        _close(held, used=_amounts(held.model_name, usage))


def close_call(*, call: Call) -> None:
    """Close the hold of a call that has settled. What was dispatched was used, however it ended."""
    held = _HELD.first(call=call.pk)
    if held is not None:
        _close(held, used={Unit.CALLS: 1})


_HELD = Prepared(
    lambda: Reservation.objects.order_by().filter(
        call=Given("call", UUIDField()), state=Reservation.State.HELD
    )
)


@transaction.atomic
def close_left_behind(*, reservation_id: Any) -> None:
    """Close a reservation whose worker has gone: nobody will say what was used, so it stands."""
    held = Reservation.objects.select_for_update(no_key=True).filter(pk=reservation_id).first()
    if held is not None and held.pk in set(left_behind(1_000)):
        _close(held, used=None)


@transaction.atomic
def note_quota(*, actor: User, quota: Quota, word: str) -> None:
    """Write down what an administrator did to a limit: `set` or `removed`."""
    whose = quota.member.key if quota.member else f"agent:{quota.agent.slug}" if quota.agent else ""
    record(
        actor=actor,
        action=f"quota.{word}",
        subject=f"quota:{quota.pk}",
        detail={
            "subject": quota.subject,
            "whose": whose or "everybody",
            "unit": quota.unit,
            "period": quota.period,
            "most": quota.most,
        },
    )


@transaction.atomic
def note_price(*, actor: User, price: Price, word: str) -> None:
    """Write down what an administrator did to a price: `set` or `removed`."""
    record(
        actor=actor,
        action=f"price.{word}",
        subject=f"price:{price.pk}",
        detail={
            "model": price.model_name,
            "input": price.input_price,
            "output": price.output_price,
        },
    )


def check_quota(quota: Quota) -> None:
    """Refuse a limit that could never apply."""
    if quota.subject == Subject.MEMBER.value and quota.agent is not None:
        raise NotALimit("A member's quota names no agent.", field="agent")
    if quota.subject == Subject.AGENT.value and quota.member is not None:
        raise NotALimit("An agent's quota names no member.", field="member")
    if (quota.unit == Unit.RUNNING.value) != (quota.period == "now"):
        raise NotALimit(
            "Only what is running is counted now; all else by day or month.", field="period"
        )


def forget_old() -> None:
    """Throw away what nobody asks about any more."""
    now = timezone.now()
    Reservation.objects.filter(closed_at__lt=now - KEEP_RESERVATIONS).delete()
    Meter.objects.filter(updated_at__lt=now - KEEP_METERS, held=0).delete()


def _reserve(
    *,
    run: Run,
    kind: Reservation.Kind,
    amounts: Amounts,
    call: Call | None = None,
    model_name: str = "",
) -> Reservation:
    now = timezone.now()
    limits = limits_for(member_id=run.member_id, agent_id=run.agent_id)
    # What raises takes back what was added.
    with transaction.atomic():
        totals = move(_subjects(run.member_id, run.agent_id), at=now, held=amounts)
        found = exceeded(totals, limits)
        if found is not None:
            whose = run.member.name if found.limit.subject is Subject.MEMBER else run.agent.name
            raise QuotaExceeded(told(found, whose), renews_at=renews_at(found.span.period, now))
        made = Reservation(
            kind=kind,
            run=run,
            call=call,
            fence=run.fence,
            member_id=run.member_id,
            agent_id=run.agent_id,
            model_name=model_name[:120],
            reserved_at=now,
            reserved={unit.value: amount for unit, amount in amounts.items()},
            correlation_id=run.correlation_id,
        )
        insert(made)
        return made


def _close(
    held: Reservation, *, used: Amounts | None, state: Reservation.State | None = None
) -> None:
    """Close a reservation once: of two that try, one update finds it held."""
    reserved = {Unit(unit): amount for unit, amount in held.reserved.items()}
    believed: Amounts = reserved if used is None else used
    # What was running runs no longer, whatever else is known.
    spent: dict[Unit, int] = {**believed}
    spent.pop(Unit.RUNNING, None)
    word = state or (Reservation.State.STANDS if used is None else Reservation.State.SETTLED)
    used_up = {unit.value: amount for unit, amount in spent.items()}
    if _CLOSE.run(reservation=held.pk, state=word, used=used_up):
        move(
            _subjects(held.member_id, held.agent_id),
            # The spans of the reservation: what began last month was used last month.
            at=held.reserved_at,
            used=spent,
            held={unit: -reserved.get(unit, 0) for unit in {**reserved, **spent}},
        )


_CLOSE = Change(
    lambda: Reservation.objects.order_by().filter(
        pk=Given("reservation", UUIDField()), state=Reservation.State.HELD
    ),
    {"closed_at": Now(), "updated_at": Now(), **given_fields(Reservation, "state", "used")},
)


def _subjects(member_id: Any, agent_id: Any) -> Subjects:
    return {Subject.MEMBER: str(member_id), Subject.AGENT: str(agent_id)}


def _amounts(model_name: str, use: ModelUse) -> Amounts:
    amounts = {Unit.RUNNING: 1, Unit.TOKENS: use.tokens_in + use.tokens_out}
    price = price_of(model_name)
    if price is not None:
        amounts[Unit.MONEY] = cost(
            tokens_in=use.tokens_in,
            tokens_out=use.tokens_out,
            price_in=price.input_price,
            price_out=price.output_price,
        )
    return amounts
