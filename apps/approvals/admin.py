"""What do administrators see of approvals? Who was asked what, and how they decided.

Nobody decides here: an approval is the member's for whom the run works.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from apps.approvals.models import ApprovalRequest, Receipt
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
)

State = ApprovalRequest.State
_LABELS = {
    State.PENDING: "warning",
    State.APPROVED: "success",
    State.DENIED: "danger",
    State.EXPIRED: "default",
    State.WITHDRAWN: "default",
}
_TONES = {State.PENDING: "wait", State.APPROVED: "ok", State.DENIED: "bad"}


@admin.register(ApprovalRequest)
class ApprovalRequestAdmin(SheetAdmin):
    """Questions that members were asked."""

    list_display = ("tool", "asked", "state_word", "expires_at", "decided_at", "created_at")
    list_filter = (("state", ChoicesDropdownFilter), ("created_at", DayRangeFilter))
    search_fields = ("tool", "decider__username")
    search_help_text = "Tool or member"
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List questions with whom they were put to."""
        return ApprovalRequest.objects.select_related(
            "decider", "decided_by", "call__run__agent", "call__run__member"
        ).defer("call__arguments", "call__projection", "call__run__catalog")

    @display(description="Asked")
    def asked(self, row: Any) -> str:
        """Name who was asked."""
        return str(row.decider.name)

    @display(description="State", label=_LABELS)
    def state_word(self, row: Any) -> tuple[str, str]:
        """Say how it stands."""
        return row.state, row.get_state_display()

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a question, its decision and its receipt."""
        receipt = Receipt.objects.filter(request=obj).first()
        return Sheet(
            title=f"{obj.tool}, asked of {obj.decider.name}",
            icon="back_hand",
            summary="Only the member who was asked sees the arguments, and decides.",
            tags=[Cell(obj.get_state_display(), _TONES.get(obj.state, "quiet"))],
            cards=[
                Card(
                    "Question",
                    facts=[
                        Fact("Tool", code(obj.tool)),
                        Fact("Why it asks", Cell(obj.why or "—")),
                        Fact("Arguments", digest(obj.arguments_digest)),
                        Fact("Descriptor", digest(obj.descriptor_digest)),
                        Fact("Call", Cell(obj.call.title, href=path_of(obj.call))),
                        Fact(
                            "Run",
                            Cell(
                                f"{obj.call.run.agent.name}, for {obj.call.run.member.name}",
                                href=path_of(obj.call.run),
                            ),
                        ),
                    ],
                ),
                Card(
                    "Decision",
                    aside=True,
                    facts=[
                        Fact("State", Cell(obj.get_state_display())),
                        Fact("By", person(obj.decided_by)),
                        Fact("Asked", moment(obj.created_at)),
                        Fact("Decided", moment(obj.decided_at)),
                        Fact("Expires", moment(obj.expires_at)),
                    ],
                ),
                Card(
                    "Receipt",
                    aside=True,
                    facts=[
                        Fact("Given", moment(receipt.created_at)),
                        Fact("Spent", moment(receipt.spent_at)),
                        Fact("Expires", moment(receipt.expires_at)),
                    ]
                    if receipt
                    else [Fact("Given", Cell("no"))],
                ),
            ],
        )
