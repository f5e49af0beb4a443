"""A schedule says when it comes next, by the wall clock of its zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apps.automations.schedules import read_schedule
from apps.core.errors import Invalid


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "due"),
    [
        ("0 6 * * *", "UTC", "2026-03-01 05:59", "2026-03-01 06:00"),
        ("0 6 * * *", "UTC", "2026-03-01 06:00", "2026-03-02 06:00"),
        ("*/15 * * * *", "UTC", "2026-03-01 06:01", "2026-03-01 06:15"),
        ("0 6 * * 0", "UTC", "2026-03-02 06:00", "2026-03-08 06:00"),
        ("0 6 * * mon-fri", "UTC", "2026-03-06 06:00", "2026-03-09 06:00"),
        # Both days have to fit: the next Friday that is a 13th.
        ("0 6 13 * 5", "UTC", "2026-03-14 00:00", "2026-11-13 06:00"),
        ("0 6 * * *", "Europe/Zurich", "2026-01-10 00:00", "2026-01-10 05:00"),
        ("0 6 * * *", "Europe/Zurich", "2026-07-10 00:00", "2026-07-10 04:00"),
        # The hour that spring leaves out comes an hour later by the wall clock, on the same day.
        ("30 2 * * *", "Europe/Zurich", "2026-03-28 12:00", "2026-03-29 01:30"),
        # The hour that autumn repeats comes once.
        ("30 2 * * *", "Europe/Zurich", "2026-10-24 12:00", "2026-10-25 00:30"),
        ("30 2 * * *", "Europe/Zurich", "2026-10-25 00:30", "2026-10-26 01:30"),
        # Far from Greenwich the day is another one.
        ("0 0 1 * *", "Pacific/Kiritimati", "2026-03-31 09:00", "2026-03-31 10:00"),
    ],
)
def test_a_schedule_comes_next_by_the_wall_clock_of_its_zone(
    schedule: str, zone: str, after: str, due: str
) -> None:
    assert read_schedule(schedule, zone).after(at(after)) == at(due)


def test_a_day_that_never_is_never_comes() -> None:
    assert read_schedule("0 6 31 2 *", "UTC").after(at("2026-03-01 00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("* * * * *", "every 5 minutes"),
        ("*/4 * * * *", "every 5 minutes"),
        # Two minutes of the hour that are close across its end.
        ("2,58 * * * *", "every 5 minutes"),
        ("0 6 * *", "five fields"),
        ("0 6 * * * *", "five fields"),
        ("60 6 * * *", "minute"),
        ("0 24 * * *", "hour"),
        ("0 6 0 * *", "day of the month"),
        ("0 6 * 13 *", "month"),
        ("0 6 * * 8", "day of the week"),
        ("0/0 6 * * *", "minute"),
        ("*/0 6 * * *", "minute"),
        ("0 6 * * someday", "day of the week"),
        ("0 6 * * " + "1," * 60, "five fields"),
    ],
)
def test_a_schedule_that_makes_no_sense_names_its_field(schedule: str, says: str) -> None:
    with pytest.raises(Invalid, match=says) as refused:
        read_schedule(schedule, "UTC")
    assert refused.value.field == "schedule"


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../etc/passwd", "/etc", "Europe", "a\0b"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_schedule("0 6 * * *", zone)
    assert refused.value.field == "time_zone"
