"""Spans, limits and costs: arithmetic that everybody can check by hand."""

import pytest

from apps.domain.quotas import (
    Exceeded,
    Limit,
    Period,
    Span,
    Subject,
    Total,
    Unit,
    amount,
    cost,
    exceeded,
    told,
)


@pytest.mark.parametrize(
    ("tokens", "prices", "costs"),
    [
        ((0, 0), (3_000_000, 15_000_000), 0),
        ((1_000_000, 0), (3_000_000, 15_000_000), 3_000_000),
        ((1, 0), (1, 1), 1),
        ((1000, 500), (3_000_000, 15_000_000), 10_500),
    ],
)
def test_a_step_costs_its_tokens_rounded_up(
    tokens: tuple[int, int], prices: tuple[int, int], costs: int
) -> None:
    assert (
        cost(tokens_in=tokens[0], tokens_out=tokens[1], price_in=prices[0], price_out=prices[1])
        == costs
    )


DAY = Span(Period.DAY, "2026-05-05", "6 May 2026 at 00:00 UTC")
MONTH = Span(Period.MONTH, "2026-05", "1 June 2026 at 00:00 UTC")
NOW = Span(Period.NOW, "now")


def total(unit: Unit, span: Span, used: int, subject: Subject = Subject.MEMBER) -> Total:
    return Total(subject, unit, span, used)


def limit(unit: Unit, period: Period, most: int, subject: Subject = Subject.MEMBER) -> Limit:
    return Limit(subject, unit, period, most)


def test_a_limit_holds_exactly_as_much_as_it_says() -> None:
    limits = [limit(Unit.CALLS, Period.DAY, 5)]
    assert exceeded([total(Unit.CALLS, DAY, 5)], limits) is None
    assert exceeded([total(Unit.CALLS, DAY, 6)], limits) == Exceeded(limits[0], DAY)


def test_a_limit_bounds_only_what_it_names() -> None:
    limits = [limit(Unit.CALLS, Period.DAY, 0)]
    for other in (
        total(Unit.CALLS, MONTH, 9),
        total(Unit.TOKENS, DAY, 9),
        total(Unit.CALLS, DAY, 9, Subject.AGENT),
    ):
        assert exceeded([other], limits) is None


def test_what_is_spent_is_said_before_what_frees_itself() -> None:
    limits = [
        limit(Unit.RUNNING, Period.NOW, 1),
        limit(Unit.CALLS, Period.DAY, 1),
        limit(Unit.CALLS, Period.MONTH, 1),
    ]
    totals = [
        total(Unit.RUNNING, NOW, 2),
        total(Unit.CALLS, DAY, 2),
        total(Unit.CALLS, MONTH, 2),
    ]
    found = exceeded(totals, limits)
    assert found is not None
    assert found.span is MONTH


def test_the_words_say_whose_what_and_when_it_renews() -> None:
    words = told(Exceeded(limit(Unit.TOKENS, Period.DAY, 12_000), DAY), "Mara")
    assert words == (
        "Mara may use 12,000 of model tokens today, and this would be more."
        " It renews on 6 May 2026 at 00:00 UTC."
    )
    assert "1.50" in told(Exceeded(limit(Unit.MONEY, Period.MONTH, 1_500_000), MONTH), "Mara")
    running = told(Exceeded(limit(Unit.RUNNING, Period.NOW, 2), NOW), "Scribe")
    assert "renews" not in running
    assert "when one of them has ended" in running


def test_money_is_written_as_people_read_it() -> None:
    assert amount(Unit.MONEY, 12_345_678) == "12.35"
    assert amount(Unit.CALLS, 12_345) == "12,345"
