"""In which spans of time does a moment lie? Days and months of UTC, for everybody alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apps.domain.quotas import Period, Span, Unit


def spans(unit: Unit, now: datetime) -> tuple[Span, ...]:
    """Return the spans in which the use of a unit is counted at this moment."""
    if unit is Unit.RUNNING:
        return (Span(Period.NOW, "now"),)
    day = now.astimezone(UTC)
    return (_span(Period.DAY, f"{day:%Y-%m-%d}", now), _span(Period.MONTH, f"{day:%Y-%m}", now))


def renews_at(period: Period, now: datetime) -> datetime | None:
    """Return when what is used at this moment is there again; None where no time brings it back."""
    if period is Period.NOW:
        return None
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period is Period.DAY:
        return midnight + timedelta(days=1)
    return (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)


def _span(period: Period, name: str, now: datetime) -> Span:
    return Span(period, name, f"{renews_at(period, now):%-d %B %Y at %H:%M} UTC")
