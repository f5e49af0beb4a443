"""What do all admin pages share? They show; what changes something is a verb of a service.

A page of one object is a *sheet*: facts and tables that the app's admin prepares, drawn by one
template. Lists count no further than anyone pages, so a table of millions opens at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.contrib.admin import ShowFacets
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import RangeDateFilter
from unfold.utils import parse_date_str
from unfold.views import ChangeList


@dataclass(frozen=True, slots=True)
class Cell:
    """One value on a page: its words, and how they are drawn.

    A bar stands for a stretch of time, as start and length in hundredths of the whole; what was
    only waited before it is drawn as another.
    """

    text: str
    tone: str = ""
    icon: str = ""
    mono: bool = False
    href: str = ""
    title: str = ""
    at: datetime | None = None
    bar: tuple[float, float] | None = None
    waited: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A named value."""

    label: str
    cell: Cell


@dataclass(frozen=True, slots=True)
class Card:
    """A titled part of a page: facts, a table, or a text."""

    title: str
    facts: Sequence[Fact] = ()
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    text: str = ""
    note: str = ""
    aside: bool = False
    empty: str = "Nothing here."

    @property
    def lines(self) -> list[list[tuple[str, Cell]]]:
        """Return the rows with each value beside its header: a phone shows them so."""
        return [list(zip(self.headers, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that may be done here: where it is sent, what it says, and what it means."""

    path: str
    label: str
    consequence: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One object's page."""

    title: str
    summary: str = ""
    icon: str = "description"
    tags: Sequence[Cell] = ()
    cards: Sequence[Card] = ()
    verbs: Sequence[Verb] = field(default_factory=tuple)


class BoundedPaginator(Paginator):
    """Count up to a bound: beyond it one filters, and nobody pages."""

    BOUND = 10_000
    template_name = "admin/bounded_pages.html"

    @cached_property
    def count(self) -> int:
        """Count the rows, or return the bound where there are more."""
        rows = self.object_list
        if isinstance(rows, QuerySet):
            return int(rows.order_by()[: self.BOUND].count())
        return len(rows)

    @property
    def bounded(self) -> bool:
        """Whether there may be more rows than were counted."""
        return self.count >= self.BOUND


class QuietChangeList(ChangeList):
    """A list that never counts the whole table beside its filtered part."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page; the count of the filtered rows stands for both."""
        super().get_results(request)
        self.full_result_count = self.result_count

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str] | None = None
    ) -> QuerySet[Any]:
        """Filter; a NUL, which no value in the database holds, is a filter that makes no sense."""
        if any("\x00" in value for values in self.filter_params.values() for value in values):
            raise IncorrectLookupParameters("A filter holds a NUL.")
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        return rows


class DayRangeFilter(RangeDateFilter):
    """Rows of some days, first and last included, by the clock that the pages show (UTC)."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows between the two days; a day that is none keeps everything."""
        name = self.parameter_name
        first = _day(self.used_parameters.get(f"{name}_from"))
        last = _day(self.used_parameters.get(f"{name}_to"))
        if first is not None:
            queryset = queryset.filter(**{f"{name}__gte": first})
        # After the last day of the calendar there is nothing to leave out.
        if last is not None and last.date() < date.max:
            queryset = queryset.filter(**{f"{name}__lt": last + timedelta(days=1)})
        return queryset


class ReadOnlyAdmin(ModelAdmin):
    """A list that shows; nothing is added, changed or deleted behind a service's back."""

    actions: Sequence[str] | None = None
    list_per_page = 50
    list_max_show_all = 0
    list_filter_submit = True
    list_fullwidth = True
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Use the list that counts no whole table."""
        return QuietChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Filter by what the list offers, and nothing else.

        By default any column of the model will do, and a column that no page shows could be
        guessed letter by letter from which rows are left.
        """
        named = lookup.partition(LOOKUP_SEP)[0]
        columns = {name for one in self.model._meta.get_fields() for name in _names(one)}
        if named in columns and named not in self._filters(request):
            return False
        return bool(super().lookup_allowed(lookup, value, request))

    def _filters(self, request: HttpRequest) -> set[str]:
        """Name the filters of the list: a column, one with its class, or a class with a name."""
        firsts = [
            one[0] if isinstance(one, tuple | list) else one
            for one in self.get_list_filter(request)
        ]
        return {str(getattr(one, "parameter_name", one)) for one in firsts}

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return an object of the list; a NUL is in no key, and the database refuses to look."""
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody add here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody change here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody delete here."""
        return False


class SheetAdmin(ReadOnlyAdmin):
    """A list whose objects have a sheet for a page."""

    change_template = "admin/sheet.html"

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Return what the page of one object shows."""
        raise NotImplementedError

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one object's sheet."""
        obj = self.found(request, object_id)
        sheet = self.sheet(request, obj)
        return self.page(request, self.change_template, sheet.title, sheet=sheet, original=obj)

    def found(self, request: HttpRequest, object_id: str) -> Any:
        """Return an object of this list that the administrator may see."""
        obj = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        if obj is None:
            raise Http404("There is nothing here.")
        return obj

    def page(
        self, request: HttpRequest, template: str, title: str, **context: Any
    ) -> TemplateResponse:
        """Draw a page of this list's objects inside the admin."""
        request.current_app = self.admin_site.name
        whole = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,
            "model_admin": self,
            "page_title": title,
            "is_fullwidth": "1",
            "title": title,
            **context,
        }
        return TemplateResponse(request, template, whole)


def _names(column: Any) -> set[str]:
    """Return the names by which a query may call a column."""
    return {column.name, getattr(column, "attname", column.name)}


def _day(given: Any) -> datetime | None:
    day = parse_date_str(given) if isinstance(given, str) else None
    return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None


def path_of(obj: Model | None) -> str:
    """Return the address of an object's admin page, or nothing for nothing."""
    if obj is None:
        return ""
    meta = obj._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[obj.pk])


def person(user: Any) -> Cell:
    """Draw a person."""
    return Cell(user.name, icon="person", title=user.username) if user else Cell("—")


def moment(at: datetime | None) -> Cell:
    """Draw a time: how long ago it was, with the exact time behind it."""
    if at is None:
        return Cell("—")
    return Cell(ago(at), at=at, title=f"{at:%Y-%m-%d %H:%M:%S} UTC")


def digest(value: str) -> Cell:
    """Draw a digest by its ends, with the whole behind it."""
    if not value:
        return Cell("—")
    kind, _, hexadecimal = value.rpartition(":")
    short = f"{hexadecimal[:8]}…{hexadecimal[-6:]}" if len(hexadecimal) > 16 else hexadecimal
    return Cell(f"{kind} {short}".strip(), mono=True, title=value)


def code(text: Any) -> Cell:
    """Draw something that was not written for people."""
    return Cell(str(text), mono=True) if text not in (None, "") else Cell("—")


def ago(at: datetime) -> str:
    """Say how long ago something was: relative up to a day, then a date."""
    passed = timezone.now() - at
    if passed < timedelta(0):
        return f"in {span(-passed)}"
    if passed < timedelta(seconds=5):
        return "just now"
    if passed < timedelta(days=1):
        return f"{span(passed)} ago"
    return f"{at:%-d %B %Y}" if at.year != timezone.now().year else f"{at:%-d %B}"


def span(length: timedelta | None) -> str:
    """Say how long something took, in the largest fitting unit."""
    if length is None:
        return "—"
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    if seconds < 86400:
        return f"{seconds // 3600:.0f} h"
    days = int(seconds // 86400)
    return f"{days} day" if days == 1 else f"{days} days"


def plural(count: int, one: str, many: str = "") -> str:
    """Say a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
