"""What do administrators see of approvals, and what do they rule about them?

Nobody decides here: an approval is the member's for whom the run works, and a second yes is given
where its arguments are shown. Rules and allow-lists are an administrator's own.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from apps.accounts.identity import acting_user
from apps.approvals.models import (
    ApprovalRequest,
    ApprovalRule,
    Receipt,
    UnattendedAllowance,
    Waiver,
)
from apps.approvals.rules import allow_unattended, drop_rule, forbid_unattended, set_rule
from apps.core.admin import (
    Card,
    Cell,
    DayRangeFilter,
    Fact,
    ReadOnlyAdmin,
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
    State.REPLACED: "info",
    State.EXPIRED: "default",
    State.WITHDRAWN: "default",
}
_TONES = {State.PENDING: "wait", State.APPROVED: "ok", State.DENIED: "bad"}


@admin.register(ApprovalRequest)
class ApprovalRequestAdmin(SheetAdmin):
    """Questions that members were asked."""

    list_display = ("tool", "asked", "state_word", "expires_at", "decided_at", "created_at")
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("second", ChoicesDropdownFilter),
        ("created_at", DayRangeFilter),
    )
    search_fields = ("tool", "decider__username")
    search_help_text = "Tool or member"
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List questions with whom they were put to."""
        return ApprovalRequest.objects.select_related("decider")

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
        # Read again, with what only this page shows: joined to all of it, the list would be slow.
        obj = (
            ApprovalRequest.objects.select_related(
                "decider",
                "decided_by",
                "call__run__agent",
                "call__run__member",
                "replaces",
                "replaced_by",
            )
            .defer("call__arguments", "call__projection", "call__run__catalog")
            .get(pk=obj.pk)
        )
        receipt = Receipt.objects.filter(request=obj).first()
        return Sheet(
            title=f"{obj.tool}, asked of {obj.decider.name}",
            icon="back_hand",
            summary="Only those who are asked see the arguments, and decide.",
            tags=[Cell(obj.get_state_display(), _TONES.get(obj.state, "quiet"))],
            cards=[
                Card(
                    "Question",
                    facts=[
                        Fact("Tool", code(obj.tool)),
                        Fact("Why it asks", Cell(obj.why or "—")),
                        Fact("Asks", Cell(obj.get_mode_display())),
                        Fact("Second yes", Cell(obj.get_second_display())),
                        Fact("In place of", _request(obj.replaces)),
                        Fact("Replaced by", _request(getattr(obj, "replaced_by", None))),
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
                Card("Answers", aside=True, facts=_answers(obj)),
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


def _answers(request: ApprovalRequest) -> list[Fact]:
    rows = request.answers.select_related("by")
    said = [
        Fact(f"{row.get_part_display()} {'yes' if row.yes else 'no'}", person(row.by))
        for row in rows
    ]
    return said or [Fact("Given", Cell("none yet"))]


def _request(request: ApprovalRequest | None) -> Cell:
    return Cell("—") if request is None else Cell(str(request), href=path_of(request))


@admin.register(Waiver)
class WaiverAdmin(ReadOnlyAdmin):
    """Calls that would have asked and passed without a question."""

    list_display = ("tool", "kind", "member", "at")
    list_filter = (("kind", ChoicesDropdownFilter), ("at", DayRangeFilter))
    search_fields = ("call__tool", "call__run__member__username")
    search_help_text = "Tool or member"
    ordering = ("-at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List them with the call that passed."""
        return Waiver.objects.select_related("call__run__member").defer(
            "call__arguments", "call__projection", "call__run__catalog"
        )

    @display(description="Tool")
    def tool(self, row: Waiver) -> str:
        """Name the tool."""
        return row.call.tool

    @display(description="For")
    def member(self, row: Waiver) -> str:
        """Name for whom it passed."""
        return str(row.call.run.member.name)


@admin.register(ApprovalRule)
class ApprovalRuleAdmin(ModelAdmin):
    """What is asked at least, by family, surface or tool. Rules only ever tighten."""

    actions = None
    list_display = ("__str__", "floor", "may_choose", "second", "second_for", "note")
    list_filter = ("floor", "second")
    search_fields = ("family", "surface", "tool", "note")
    search_help_text = "Family, surface, tool or note"
    fields = (
        ("family", "surface", "tool"),
        "floor",
        "never_allowed",
        ("second", "second_for"),
        "expires_after_s",
        "note",
    )

    @display(description="Never to be asked")
    def may_choose(self, row: ApprovalRule) -> str:
        """Say whether members may choose never to be asked."""
        words = {True: "may be chosen", False: "may not be chosen", None: "left to others"}
        return words[row.never_allowed]

    def save_model(self, request: HttpRequest, obj: ApprovalRule, form: Any, change: bool) -> None:
        """Save by the verb that writes it down."""
        set_rule(rule=obj, actor=acting_user(request))

    def delete_model(self, request: HttpRequest, obj: ApprovalRule) -> None:
        """Delete by the verb that writes it down."""
        drop_rule(rule=obj, actor=acting_user(request))


@admin.register(UnattendedAllowance)
class UnattendedAllowanceAdmin(ModelAdmin):
    """Tools that one schedule, webhook or mail trigger may use without a person's yes."""

    actions = None
    list_display = ("tool", "trigger", "named", "whose", "updated_at")
    list_filter = ("trigger",)
    list_select_related = ("automation__member",)
    search_fields = ("tool", "name", "automation__name", "automation__member__username")
    search_help_text = "Tool, trigger or member"
    autocomplete_fields = ("automation",)
    fields = ("trigger", "automation", "name", "tool")

    def get_form(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """Say at each field which triggers need it, and what the tool is then free to do."""
        helps = {
            "automation": "For a schedule or a webhook: the member's automation that it starts.",
            "name": "For a mail: the name of its trigger. Leave it empty for anything else.",
            "tool": "Its whole name, such as create_artifact. In runs that this trigger started,"
            " nobody is asked before it is called.",
        }
        return super().get_form(request, obj, help_texts=helps, **kwargs)

    @display(description="Of")
    def whose(self, row: UnattendedAllowance) -> str:
        """Name the member whose automation it is."""
        return "" if row.automation is None else str(row.automation.member.name)

    def save_model(
        self, request: HttpRequest, obj: UnattendedAllowance, form: Any, change: bool
    ) -> None:
        """Save by the verb that writes it down."""
        allow_unattended(allowance=obj, actor=acting_user(request))

    def delete_model(self, request: HttpRequest, obj: UnattendedAllowance) -> None:
        """Delete by the verb that writes it down."""
        forbid_unattended(allowance=obj, actor=acting_user(request))
