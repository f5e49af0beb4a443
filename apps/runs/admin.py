"""What do administrators see of runs? Their timeline and their facts; never what was said.

Arguments, results and messages are for the people of the room. Here stand times, names, digests
and outcomes.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from apps.audit.selectors import history_of, rows_of_correlation
from apps.core.admin import (
    Card,
    Cell,
    DayRangeFilter,
    Fact,
    Sheet,
    SheetAdmin,
    code,
    digest,
    moment,
    path_of,
    person,
    plural,
    span,
)
from apps.runs.models import Call, Run
from apps.runs.timeline import AUDIT_SHOWN, run_timeline, stands, tone_of, waited_of
from apps.runs.waits import WaitsFor, waits_for

RELATIVES_SHOWN = 20
_RUN_TONES = {
    Run.State.QUEUED: "default",
    Run.State.RUNNING: "info",
    Run.State.PARKED: "warning",
    Run.State.FINISHED: "success",
}
_WAITED_FOR = {
    WaitsFor.PERSON: "A person's answer",
    WaitsFor.WORKER: "A worker that is free",
    WaitsFor.SYSTEM: "The answer of another system",
    WaitsFor.AGENT: "The last word of another agent",
}
_CALL_LABELS = {"ok": "success", "bad": "danger", "odd": "warning", "wait": "warning",
                "quiet": "default"}  # fmt: skip


def _calls_of(run: Any) -> Coalesce:
    """Count the calls of one run: a page of runs asks for its own, and for no others."""
    counted = Call.objects.filter(run=run).order_by().values("run").annotate(n=Count("pk"))
    return Coalesce(Subquery(counted.values("n")), 0)


@admin.register(Run)
class RunAdmin(SheetAdmin):
    """Runs."""

    list_display = ("agent_name", "member_name", "room", "state_word", "outcome", "number_of_calls",
                    "created_at")  # fmt: skip
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("outcome", ChoicesDropdownFilter),
        ("runtime", ChoicesDropdownFilter),
        ("created_at", DayRangeFilter),
    )
    search_fields = ("agent__slug", "member__username", "room__name", "correlation_id")
    search_help_text = "Agent, member, room or correlation id"
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List runs with their people."""
        return (
            Run.objects.select_related("agent", "member", "room")
            .defer("catalog")
            .annotate(number=_calls_of(OuterRef("pk")))
        )

    @display(description="Agent")
    def agent_name(self, row: Any) -> str:
        """Name the agent."""
        return str(row.agent.name)

    @display(description="For")
    def member_name(self, row: Any) -> str:
        """Name the member."""
        return str(row.member.name)

    @display(description="State", label=_RUN_TONES)
    def state_word(self, row: Any) -> tuple[str, str]:
        """Say where the run stands."""
        return row.state, row.get_state_display()

    @display(description="Calls")
    def number_of_calls(self, row: Any) -> int:
        """Count its calls."""
        return int(row.number)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a run's timeline, facts and audit rows."""
        timeline = run_timeline(obj)
        audit = rows_of_correlation(obj.correlation_id, limit=AUDIT_SHOWN)
        tools = len((obj.catalog or {}).get("tools", {}))
        return Sheet(
            title=f"{obj.agent.name}, for {obj.member.name}",
            icon="timeline",
            summary=obj.explanation,
            tags=[
                Cell(obj.get_state_display(), "ok" if obj.state == Run.State.FINISHED else "info"),
                Cell(plural(timeline.calls, "call"), "quiet"),
            ],
            cards=[
                Card(
                    "Timeline",
                    note=timeline.note,
                    headers=("#", "Step", "", "Outcome", "Took"),
                    rows=timeline.rows,
                    empty="Nothing happened yet.",
                ),
                Card(
                    "How each call was decided",
                    headers=("#", "Call", "Outcome", "Rule", "Asked for", "Effect", "Arguments"),
                    rows=timeline.decisions,
                    empty="Nothing was proposed yet.",
                ),
                *_family(obj),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Room", Cell(obj.room.name, href=path_of(obj.room))),
                        Fact("Member", person(obj.member)),
                        Fact("Agent", Cell(obj.agent.name, href=path_of(obj.agent))),
                        Fact("Started by", Cell(obj.get_trigger_display())),
                        Fact("Automation", code(obj.automation_id)),
                        Fact("Authority ends", moment(obj.authority_until)),
                        Fact("Runtime", Cell(obj.get_runtime_display())),
                        Fact("Started", moment(obj.created_at)),
                        Fact("Finished", moment(obj.finished_at)),
                        Fact("Outcome", Cell(obj.get_outcome_display() or "—")),
                        Fact("Waits for", Cell(timeline.waits or "—")),
                        Fact("Took", Cell(span(timeline.took))),
                        Fact("Waited for people", Cell(span(timeline.waited))),
                        Fact("Calls ran", Cell(span(timeline.ran))),
                        Fact("Fence", code(obj.fence)),
                        Fact("Claimed by", code(obj.claimed_by)),
                        Fact("Catalog", Cell(plural(tools, "tool"))),
                        Fact("Catalog digest", digest(obj.catalog_digest)),
                        Fact("Correlation id", code(obj.correlation_id)),
                    ],
                ),
                Card(
                    "Audit",
                    aside=True,
                    headers=("When", "What"),
                    rows=[(moment(told.row.at), code(told.row.action)) for told in audit],
                ),
            ],
        )


def _family(run: Run) -> list[Card]:
    """Show the run that this one works for, and those that work for it, where there are any."""
    near = list(
        Run.objects.filter(Q(parent=run) | Q(pk=run.parent_id))
        .select_related("agent", "member")
        .defer("catalog", "agent__persona")
        .order_by("created_at")[: RELATIVES_SHOWN + 1]
    )
    if not near:
        return []
    rows = [
        (
            Cell("works for" if one.pk == run.parent_id else "worked for by"),
            Cell(f"{one.agent.name}, for {one.member.name}", href=path_of(one)),
            Cell(one.get_state_display()),
            Cell(one.get_outcome_display() or "—"),
            moment(one.created_at),
        )
        for one in near[:RELATIVES_SHOWN]
    ]
    note = f"the first {RELATIVES_SHOWN}" if len(near) > RELATIVES_SHOWN else ""
    headers = ("Which", "Run", "State", "Outcome", "Started")
    return [Card("Runs beside it", note=note, headers=headers, rows=rows)]


@admin.register(Call)
class CallAdmin(SheetAdmin):
    """Calls."""

    list_display = ("title", "tool", "effect", "stands_word", "reason", "created_at")
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("outcome", ChoicesDropdownFilter),
        ("created_at", DayRangeFilter),
    )
    search_fields = ("tool", "run__member__username", "run__agent__slug")
    search_help_text = "Tool, member or agent"
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List calls without what they carried."""
        return Call.objects.select_related("run__agent", "run__member").defer(
            "arguments", "projection", "run__catalog"
        )

    @display(description="Stands", label=_CALL_LABELS)
    def stands_word(self, row: Any) -> tuple[str, str]:
        """Say how the call ended, or whom it waits for."""
        return tone_of(row), stands(row)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a call's facts, without what it carried."""
        run = obj.run
        took = obj.settled_at - obj.dispatched_at if obj.settled_at and obj.dispatched_at else None
        return Sheet(
            title=obj.title,
            icon="bolt",
            summary="Arguments and results are shown to people of the room, not here.",
            tags=[Cell(stands(obj), tone_of(obj))],
            cards=[
                Card(
                    "Call",
                    facts=[
                        Fact("Tool", code(obj.tool)),
                        Fact("Effect", Cell(obj.effect or "—")),
                        Fact("State", code(obj.state)),
                        *_waits(obj),
                        Fact("Outcome", code(obj.outcome)),
                        Fact("Reason", code(obj.reason)),
                        Fact("Whose failure", Cell(obj.get_domain_display() or "—")),
                        Fact("Rule", code(obj.rule)),
                        Fact("Arguments", digest(obj.arguments_digest)),
                        Fact("Descriptor", digest(obj.descriptor_digest)),
                        Fact("Needs a receipt", Cell("yes" if obj.needs_receipt else "no")),
                    ],
                ),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Run", Cell(f"{run.agent.name}, for {run.member.name}",
                                         href=path_of(run))),
                        Fact("Place", code(f"step {obj.step}, {obj.place}")),
                        Fact("Proposed", moment(obj.created_at)),
                        Fact("Dispatched", moment(obj.dispatched_at)),
                        Fact("Settled", moment(obj.settled_at)),
                        Fact("Waited for people",
                             Cell(span(waited_of(obj)) if obj.needs_receipt else "—")),
                        Fact("Ran", Cell(span(took))),
                        Fact("Executor", code(obj.executor)),
                    ],
                ),
                Card(
                    "Audit",
                    aside=True,
                    headers=("When", "What"),
                    rows=[
                        (moment(told.row.at), code(told.row.action))
                        for told in history_of(obj.key, limit=AUDIT_SHOWN)
                    ],
                ),
            ],
        )  # fmt: skip


def _waits(call: Call) -> list[Fact]:
    """Show what a call waits for: the question, the answer or the run that lets it go on."""
    waits = waits_for(call)
    if waits is None:
        return []
    facts = [Fact("Waits for", Cell(_WAITED_FOR[waits]))]
    match waits:
        case WaitsFor.PERSON if (question := getattr(call, "approval", None)) is not None:
            facts.append(
                Fact("Question", Cell(question.get_state_display(), href=path_of(question)))
            )
        case WaitsFor.SYSTEM if (pause := getattr(call, "pause", None)) is not None:
            facts.append(Fact("At most until", moment(pause.expires_at)))
        case WaitsFor.AGENT if (child := getattr(call, "child", None)) is not None:
            facts.append(Fact("Works for it", Cell(child.agent.name, href=path_of(child))))
    return facts
