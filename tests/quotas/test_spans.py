"""Days and months of UTC, for everybody alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.quotas import Period, Span, Unit
from apps.quotas.spans import renews_at, spans

moments = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def test_use_is_counted_by_the_days_and_months_of_utc() -> None:
    tokyo = datetime(2027, 1, 1, 3, 0, tzinfo=timezone(timedelta(hours=9)))
    day, month = spans(Unit.CALLS, tokyo)
    assert (day.name, day.renews) == ("2026-12-31", "1 January 2027 at 00:00 UTC")
    assert (month.name, month.renews) == ("2026-12", "1 January 2027 at 00:00 UTC")
    assert renews_at(Period.MONTH, tokyo) == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("period", [Period.DAY, Period.MONTH])
@given(now=moments)
def test_a_span_ends_where_the_next_one_begins(period: Period, now: datetime) -> None:
    end = renews_at(period, now)
    assert end is not None
    assert now < end
    place = period is Period.MONTH
    assert spans(Unit.TOKENS, end)[place].name != spans(Unit.TOKENS, now)[place].name
    last = end - timedelta(microseconds=1)
    assert spans(Unit.TOKENS, last)[place].name == spans(Unit.TOKENS, now)[place].name


def test_what_is_running_has_no_end_in_time() -> None:
    now = datetime(2026, 5, 5, tzinfo=UTC)
    assert spans(Unit.RUNNING, now) == (Span(Period.NOW, "now"),)
    assert renews_at(Period.NOW, now) is None
