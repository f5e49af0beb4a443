"""How do administrators read the audit trail? Filtered by index, paged within bounds, exported."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import URLPattern, path
from unfold.contrib.filters.admin import TextFilter
from unfold.decorators import display

from apps.audit import exporting
from apps.audit.models import AuditRow, AuditSeal
from apps.audit.selectors import names_of, rows_of_correlation
from apps.audit.services import record
from apps.core.admin import (
    Card,
    Cell,
    DayRangeFilter,
    Fact,
    QuietChangeList,
    Sheet,
    SheetAdmin,
    code,
    digest,
    moment,
)

SAME_CORRELATION = 50


class ExactFilter(TextFilter):
    """One column, compared whole, so that its index answers."""

    column = ""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows with exactly this value."""
        wanted = (self.value() or "").strip()
        return queryset.filter(**{self.column: wanted}) if wanted else queryset


class ActorFilter(TextFilter):
    """Who did it: a username, or a key like `user:7` or `agent:scribe`."""

    title = "actor (username, or kind:id)"
    parameter_name = "actor"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep what this actor did."""
        wanted = (self.value() or "").strip()
        return queryset.filter(actor=actor_key(wanted)) if wanted else queryset


class ActionFilter(TextFilter):
    """What was done: an action, or the start of some with an asterisk."""

    title = "action (proposal.approved, or proposal.*)"
    parameter_name = "action"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows with this action, or with actions that start so."""
        wanted = (self.value() or "").strip()
        if wanted.endswith("*"):
            return queryset.filter(action__startswith=wanted[:-1])
        return queryset.filter(action=wanted) if wanted else queryset


class SubjectFilter(ExactFilter):
    """To which object it was done."""

    title = "subject (kind:id)"
    parameter_name = column = "subject"


class CorrelationFilter(ExactFilter):
    """Which request or run caused it."""

    title = "correlation id"
    parameter_name = column = "correlation_id"


class AuditChangeList(QuietChangeList):
    """A page of rows, with the names of its people fetched at once."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page and its names."""
        super().get_results(request)
        rows = list(self.result_list)
        names = names_of(row.actor for row in rows)
        for row in rows:
            row.actor_name = names.get(row.actor, row.actor)
        self.result_list = rows


@admin.register(AuditRow)
class AuditRowAdmin(SheetAdmin):
    """Everything that happened, newest first."""

    list_display = ("when", "who", "action", "subject", "outcome_word", "correlation_id")
    list_filter = (
        ActorFilter,
        ActionFilter,
        SubjectFilter,
        CorrelationFilter,
        ("at", DayRangeFilter),
    )
    list_before_template = "admin/audit_export.html"
    search_fields = ("correlation_id",)
    search_help_text = "Username, action, subject or correlation id, whole"
    ordering = ("-at", "-id")
    sortable_by = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[QuietChangeList]:
        """Use the list that knows names."""
        return AuditChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Compare whole values: each side of the question has its index, whatever the size."""
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(
            Q(correlation_id=term) | Q(subject=term) | Q(action=term) | Q(actor=actor_key(term))
        ), False

    @display(description="When")
    def when(self, row: AuditRow) -> str:
        """Show the exact time."""
        return f"{row.at:%Y-%m-%d %H:%M:%S}"

    @display(description="Who")
    def who(self, row: Any) -> str:
        """Name the actor."""
        return str(row.actor_name)

    @display(description="Outcome", label={"refused": "warning", "denied": "warning"})
    def outcome_word(self, row: AuditRow) -> str | None:
        """Say how it ended."""
        return row.outcome or None

    def sheet(self, request: HttpRequest, obj: AuditRow) -> Sheet:
        """Show one row, and what the same request or run caused besides."""
        near = rows_of_correlation(obj.correlation_id, limit=SAME_CORRELATION)
        return Sheet(
            title=obj.action,
            icon="list_alt",
            summary=f"{obj.at:%-d %B %Y, %H:%M:%S} UTC",
            tags=[Cell(obj.outcome, "quiet")] if obj.outcome else [],
            cards=[
                Card(
                    "With the same correlation id",
                    headers=("When", "Who", "What", "Subject", "Outcome"),
                    rows=[
                        (
                            moment(told.row.at),
                            Cell(told.actor),
                            code(told.row.action),
                            code(told.row.subject),
                            Cell(told.row.outcome or "—"),
                        )
                        for told in near
                    ],
                ),
                Card(
                    "Row",
                    aside=True,
                    facts=[
                        Fact("Number", code(obj.pk)),
                        Fact("Actor", code(obj.actor)),
                        Fact("Subject", code(obj.subject)),
                        Fact("Digest", digest(obj.digest)),
                        Fact("Correlation id", code(obj.correlation_id)),
                        *(Fact(str(name), code(value)) for name, value in obj.detail.items()),
                    ],
                ),
            ],
        )

    def get_urls(self) -> list[URLPattern]:
        """Add the export."""
        wrap = self.admin_site.admin_view
        return [
            path("export/<str:form>/", wrap(self.export), name="audit_export"),
            *super().get_urls(),
        ]

    def export(self, request: HttpRequest, form: str) -> HttpResponseBase:
        """Send every row that the filters keep, newest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if form not in ("csv", "jsonl"):
            return HttpResponse("Export as csv or jsonl.", status=404, content_type="text/plain")
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            # Rather nothing than a file that looks like the whole answer.
            return HttpResponse(
                "These filters make no sense.", status=400, content_type="text/plain"
            )
        actor: Any = request.user
        record(
            actor=actor,
            action="audit.exported",
            subject="audit:trail",
            detail={"form": form, "filters": sorted(request.GET)[:20]},
        )
        as_csv = form == "csv"
        encode = exporting.encode_csv if as_csv else exporting.encode_json_lines
        head = exporting.csv_head() if as_csv else ""
        send = exporting.stream_later if isinstance(request, ASGIRequest) else exporting.stream
        return StreamingHttpResponse(
            send(rows, encode, head),
            content_type="text/csv; charset=utf-8" if as_csv else "application/jsonl",
            headers={"Content-Disposition": f'attachment; filename="kaizen-audit.{form}"'},
        )


@admin.register(AuditSeal)
class AuditSealAdmin(SheetAdmin):
    """The seals; `manage.py audit verify` checks them."""

    list_display = ("seal", "sealed_at", "rows", "short_mac", "short_previous")
    ordering = ("-id",)
    sortable_by = ()

    @display(description="Seal")
    def seal(self, row: AuditSeal) -> str:
        """Number the seal."""
        return f"{row.pk}"

    @display(description="Code")
    def short_mac(self, row: AuditSeal) -> str:
        """Show the start of the code."""
        return f"{row.mac[:16]}…"

    @display(description="Follows")
    def short_previous(self, row: AuditSeal) -> str:
        """Show the start of the code of the seal before."""
        return f"{row.previous_mac[:16]}…" if row.previous_mac else "nothing: it is the first"

    def sheet(self, request: HttpRequest, obj: AuditSeal) -> Sheet:
        """Show a seal whole."""
        return Sheet(
            title=f"Seal {obj.pk}",
            icon="verified",
            summary="Whether it still holds is said by the command `audit verify`.",
            cards=[
                Card(
                    "Seal",
                    facts=[
                        Fact("Sealed", moment(obj.sealed_at)),
                        Fact("Rows", code(obj.rows)),
                        Fact("Code", code(obj.mac)),
                        Fact("Code before", code(obj.previous_mac)),
                    ],
                )
            ],
        )


def actor_key(wanted: str) -> str:
    """Return the key of an actor who is named by username, or the words as they are."""
    if ":" in wanted:
        return wanted
    person = get_user_model()._default_manager.filter(username=wanted).first()
    return f"user:{person.pk}" if person else wanted
