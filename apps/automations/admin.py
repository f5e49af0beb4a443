"""What do administrators see of automations, and how do they withdraw one?"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from apps.accounts.identity import acting_user
from apps.automations.models import Automation
from apps.automations.services import revoke_automation
from apps.core.admin import (
    Card,
    Cell,
    DayRangeFilter,
    Fact,
    Sheet,
    SheetAdmin,
    ago,
    code,
    moment,
    path_of,
    person,
)
from apps.runs.models import Run

RUNS_SHOWN = 20
State = Automation.State
_LABELS = {
    State.ACTIVE: "success",
    State.PAUSED: "warning",
    State.EXPIRED: "default",
    State.REVOKED: "danger",
}
_TONES = {State.ACTIVE: "ok", State.PAUSED: "wait", State.REVOKED: "bad"}


@admin.register(Automation)
class AutomationAdmin(SheetAdmin):
    """Standing grants under which runs start that no person starts."""

    list_display = (
        "name",
        "whose",
        "trigger",
        "state_word",
        "next_due_at",
        "last_tried_at",
        "last_result",
        "expires_at",
    )
    list_filter = (
        ("trigger", ChoicesDropdownFilter),
        ("last_result", ChoicesDropdownFilter),
        ("created_at", DayRangeFilter),
    )
    search_fields = ("name", "member__username", "agent__slug")
    search_help_text = "Name, member or agent"
    ordering = ("-created_at",)
    actions = ("revoke_selected",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List automations with whose they are."""
        return Automation.objects.select_related("member", "agent", "room")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Say whether the administrator has the duty of withdrawing automations."""
        return bool(request.user.has_perm("automations.revoke_automation"))

    @admin.action(description="Revoke selected automations", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Withdraw each by the verb that writes it down."""
        idents = list(queryset.filter(revoked_at=None).values_list("pk", flat=True))
        for ident in idents:
            revoke_automation(automation_id=ident, actor=acting_user(request))
        self.message_user(request, f"{len(idents)} revoked.", messages.SUCCESS)

    @display(description="Of")
    def whose(self, row: Automation) -> str:
        """Name the member."""
        return str(row.member.name)

    @display(description="State", label=_LABELS)
    def state_word(self, row: Automation) -> tuple[str, str]:
        """Say how it stands."""
        return row.state, row.state.label

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a grant, how it last went, and the runs that it started."""
        runs = (
            Run.objects.filter(automation_id=obj.pk, parent=None)
            .defer("catalog")
            .order_by("-created_at")[:RUNS_SHOWN]
        )
        return Sheet(
            title=f"{obj.name}, of {obj.member.name}",
            icon="schedule",
            summary="No call of its runs passes once it is revoked, changed or over.",
            tags=[Cell(obj.state.label, _TONES.get(obj.state, "quiet"))],
            cards=[
                Card("What the agent is asked", text=obj.words),
                Card(
                    "Runs",
                    note=f"the newest {RUNS_SHOWN}",
                    headers=("Started", "State", "Outcome", "Revision"),
                    rows=[
                        (
                            Cell(ago(run.created_at), href=path_of(run), at=run.created_at),
                            Cell(run.get_state_display()),
                            Cell(run.explanation or run.get_outcome_display() or "—"),
                            code(run.automation_revision),
                        )
                        for run in runs
                    ],
                    empty="It has started nothing yet.",
                ),
                Card(
                    "Grant",
                    aside=True,
                    facts=[
                        Fact("Member", person(obj.member)),
                        Fact("Agent", Cell(obj.agent.name, href=path_of(obj.agent))),
                        Fact("Room", Cell(obj.room.name, href=path_of(obj.room))),
                        Fact("Started by", Cell(obj.get_trigger_display())),
                        Fact("Schedule", code(obj.schedule)),
                        Fact("Time zone", Cell(obj.time_zone)),
                        Fact("Revision", code(obj.revision)),
                        Fact("Made", moment(obj.created_at)),
                        Fact("Ends", moment(obj.expires_at)),
                        Fact("Revoked", moment(obj.revoked_at)),
                        Fact("Revoked by", code(obj.revoked_by)),
                    ],
                ),
                Card(
                    "Last start",
                    aside=True,
                    facts=[
                        Fact("Next", moment(obj.next_due_at)),
                        Fact("Last", moment(obj.last_tried_at)),
                        Fact("Came to", Cell(obj.get_last_result_display() or "—")),
                        Fact("Because", Cell(obj.last_explanation or "—")),
                    ],
                ),
            ],
        )
