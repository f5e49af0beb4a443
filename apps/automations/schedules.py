"""When is a schedule due next? Five cron fields in a named time zone, and no clock.

The fields are read by Celery's parser. Both days have to fit: the day of the month and the day of
the week. An hour that a clock change repeats comes once, and one that it leaves out comes an hour
later by the wall clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from celery.schedules import ParseException, crontab_parser

from apps.core.errors import Invalid

MIN_MINUTES = 5
MAX_TEXT = 120
LOOKS_AHEAD_DAYS = 400
"""Whatever does not come within this never comes while its grant lasts."""

_PART = re.compile(r"(\*|[0-9A-Za-z]{1,9}(-[0-9A-Za-z]{1,9})?)(/[1-9][0-9]?)?")
_FIELDS = (
    ("minute", 60, 0),
    ("hour", 24, 0),
    ("day of the month", 31, 1),
    ("month", 12, 1),
    ("day of the week", 7, 0),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes at which something is due, by the wall clock of a zone."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    zone: ZoneInfo

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment, in UTC; None where none comes in a year."""
        first = moment.astimezone(self.zone).date()
        # The day before counts too: a time that a clock change leaves out moves to a later one.
        for ahead in range(-1, LOOKS_AHEAD_DAYS):
            due = [time for time in self._times(first + timedelta(days=ahead)) if time > moment]
            if due:
                return min(due)
        return None

    def _times(self, day: date) -> Iterator[datetime]:
        fits = (
            day.month in self.months
            and day.day in self.days
            # Cron begins the week on Sunday.
            and day.isoweekday() % 7 in self.weekdays
        )
        if not fits:
            return
        for hour in self.hours:
            for minute in self.minutes:
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                yield local.astimezone(UTC)


def read_schedule(text: str, time_zone: str) -> Schedule:
    """Read five cron fields, or refuse with the field at fault."""
    fields = text.split()
    if len(text) > MAX_TEXT or len(fields) != len(_FIELDS):
        raise Invalid(
            "A schedule has five fields, as cron writes them: minute, hour, day of the month, month"
            f" and day of the week, in at most {MAX_TEXT} characters.",
            field="schedule",
        )
    minutes, hours, days, months, weekdays = (
        _numbers(given, *field) for given, field in zip(fields, _FIELDS, strict=True)
    )
    _demand_distance(minutes)
    return Schedule(minutes, hours, days, months, weekdays, read_zone(time_zone))


def read_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name in the tz database."""
    try:
        return ZoneInfo(name)
    # A name that is a path, a folder of zones, or none at all.
    except (ValueError, OSError, KeyError):
        raise Invalid(
            f"There is no time zone called {name[:64]!r}. Write one such as Europe/Zurich or UTC.",
            field="time_zone",
        ) from None


def _numbers(given: str, name: str, most: int, least: int) -> frozenset[int]:
    if all(_PART.fullmatch(part) for part in given.split(",")):
        try:
            return frozenset(crontab_parser(most, least).parse(given))
        except (ParseException, ValueError):
            pass
    raise Invalid(
        f"The {name} of this schedule is none: {given[:40]!r}. It is a number from {least} to"
        f" {least + most - 1}, a range, a list, or * with or without a step.",
        field="schedule",
    )


def _demand_distance(minutes: frozenset[int]) -> None:
    """Refuse minutes of the hour that lie too close together, also across its end."""
    ordered = sorted(minutes)
    following = [*ordered[1:], ordered[0] + 60]
    if min(later - one for one, later in zip(ordered, following, strict=True)) < MIN_MINUTES:
        raise Invalid(
            f"A schedule comes at most every {MIN_MINUTES} minutes.",
            field="schedule",
        )
