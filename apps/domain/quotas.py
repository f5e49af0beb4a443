"""How much may be used, of what, and what is said once it is used up? Values and arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MILLION: Final = 1_000_000


class Subject(StrEnum):
    """Whose use is bounded: a member's, or an agent's for all its members together."""

    MEMBER = "member"
    AGENT = "agent"


class Unit(StrEnum):
    """What is used."""

    RUNNING = "running"
    CALLS = "calls"
    TOKENS = "tokens"
    MONEY = "money"


class Period(StrEnum):
    """How long what was used stays used."""

    NOW = "now"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Span:
    """One span of time in which use is counted; at its end, in words, all of it is there again."""

    period: Period
    name: str
    renews: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that may be used of one unit in one period."""

    subject: Subject
    unit: Unit
    period: Period
    most: int


@dataclass(frozen=True, slots=True)
class Total:
    """What is used and held of one unit in one span, by one subject."""

    subject: Subject
    unit: Unit
    span: Span
    amount: int


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The first limit that what is asked for would exceed."""

    limit: Limit
    span: Span


def exceeded(totals: Iterable[Total], limits: Iterable[Limit]) -> Exceeded | None:
    """Return the first limit that a total exceeds: what frees itself soonest comes last."""
    by_place = {(limit.subject, limit.unit, limit.period): limit for limit in limits}
    found = [
        Exceeded(limit, total.span)
        for total in totals
        if (limit := by_place.get((total.subject, total.unit, total.span.period)))
        and total.amount > limit.most
    ]
    # What is spent for the month is not worth waiting for another call to end.
    order = (Period.MONTH, Period.DAY, Period.NOW)
    return min(found, key=lambda one: order.index(one.span.period), default=None)


def cost(*, tokens_in: int, tokens_out: int, price_in: int, price_out: int) -> int:
    """Return what a model step costs in millionths, rounded up; prices are per million tokens."""
    whole = tokens_in * price_in + tokens_out * price_out
    return -(-whole // MILLION)


_NOUNS: Final[Mapping[Unit, str]] = {
    Unit.RUNNING: "things running at once",
    Unit.CALLS: "calls of tools outside",
    Unit.TOKENS: "model tokens",
    Unit.MONEY: "spending",
}
_WHEN: Final[Mapping[Period, str]] = {Period.DAY: "today", Period.MONTH: "this month"}


def told(found: Exceeded, whose: str) -> str:
    """Say what is used up, and when it is there again."""
    limit, span = found.limit, found.span
    if span.period is Period.NOW:
        return (
            f"{whose} may have {limit.most:,} {_NOUNS[limit.unit]}, and as many are running. The"
            " next may begin when one of them has ended."
        )
    most = amount(limit.unit, limit.most)
    return (
        f"{whose} may use {most} of {_NOUNS[limit.unit]} {_WHEN[span.period]}, and this would be"
        f" more. It renews on {span.renews}."
    )


def amount(unit: Unit, value: int) -> str:
    """Write an amount as people read it; money is kept in millionths."""
    return f"{value / MILLION:,.2f}" if unit is Unit.MONEY else f"{value:,}"
