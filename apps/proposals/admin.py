"""How do administrators review? A queue, and a page for each proposal with its decision."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display

from apps.accounts.identity import acting_user
from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.refusals import record_refusal
from apps.core.admin import DayRangeFilter, SheetAdmin, ago, plural
from apps.core.errors import Refusal
from apps.packages.models import Package
from apps.proposals import services
from apps.proposals.models import PackageProposal
from apps.proposals.queue import queue_figures
from apps.proposals.review_sheet import reach_of, review_sheet, stored_file
from apps.proposals.selectors import with_evidence

State = PackageProposal.State
_REACH = {"wider": "danger", "new": "info", "changed": "warning", "same": "default"}
_EVIDENCE = {"Current": "success", "Failed": "danger", "Out of date": "danger"}
_STATES = {
    State.SUBMITTED: "warning",
    State.APPROVED: "success",
    State.REJECTED: "danger",
    State.WITHDRAWN: "default",
}


class StateFilter(DropdownFilter):
    """Which proposals the queue shows: those that wait, unless asked otherwise."""

    title = "state"
    parameter_name = "state"
    all_option = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Name the states, and everything."""
        decided = (State.APPROVED, State.REJECTED, State.WITHDRAWN)
        return [
            (State.SUBMITTED.value, State.SUBMITTED.label),
            *((state.value, state.label) for state in decided),
            ("all", "All"),
        ]

    def value(self) -> str:
        """Return the chosen state, or the waiting one."""
        return super().value() or State.SUBMITTED.value

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the chosen state."""
        return queryset if self.value() == "all" else queryset.filter(state=self.value())


@admin.register(PackageProposal)
class PackageProposalAdmin(SheetAdmin):
    """The review queue."""

    list_display = ("proposal", "reach", "waiting", "written_by", "evidence_word", "state_word")
    list_filter = (StateFilter, ("submitted_at", DayRangeFilter))
    list_before_template = "admin/proposals/queue_figures.html"
    search_fields = ("ref", "author__username", "author__display_name", "note")
    search_help_text = "Package, author or note"
    ordering = ("submitted_at", "created_at")
    sortable_by = ()

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let reviewers in."""
        return isinstance(request.user, User) and may(request.user, Permission.PROPOSAL_REVIEW)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the queue to reviewers only."""
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List what was ever submitted, with evidence and the active contract beside it."""
        active = Package.objects.filter(name=OuterRef("name"))
        return with_evidence(
            PackageProposal.objects.exclude(state=State.DRAFT)
            .exclude(submitted_at=None)
            .select_related("author", "reviewer")
            .annotate(
                active_ref=Subquery(active.values("active_version__ref")[:1]),
                active_manifest=Subquery(active.values("active_version__manifest")[:1]),
            )
        )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Add the figures above the list."""
        figures = queue_figures(reviewer=acting_user(request))
        answer: HttpResponse = super().changelist_view(
            request, {"figures": figures, **(extra_context or {})}
        )
        return answer

    @display(description="Proposal", header=True)
    def proposal(self, row: Any) -> list[str]:
        """Draw name and version, and what the package is."""
        tools = plural(len(row.manifest["tools"]), "tool")
        since = row.active_ref if row.active_ref != row.ref else None
        place = f"from {since.rpartition('@')[2]}" if since else "new package"
        return [row.ref.replace("@", " "), f"{row.format_title} · {tools} · {place}"]

    @display(description="Reach", label=_REACH)
    def reach(self, row: Any) -> tuple[str, str]:
        """Say how the contract compares with the active one."""
        word = reach_of(row) if row.active_ref != row.ref else "same"
        return word, {"new": "New", "wider": "Wider", "changed": "Changed", "same": "Same"}[word]

    @display(description="Waiting")
    def waiting(self, row: Any) -> str:
        """Say since when a proposal waits, or when it was decided."""
        if row.state == State.SUBMITTED:
            return ago(row.submitted_at)
        return f"decided {ago(row.decided_at)}" if row.decided_at else "—"

    @display(description="Author")
    def written_by(self, row: Any) -> str:
        """Name the author."""
        return str(row.author.name)

    @display(description="Evidence", label=_EVIDENCE)
    def evidence_word(self, row: Any) -> str:
        """Say whether a passed test stands for the proposal as it is."""
        return {"passed": "Current", "failed": "Failed"}.get(row.evidence, "Out of date")

    @display(description="State", label=_STATES)
    def state_word(self, row: Any) -> tuple[str, str]:
        """Say where the proposal stands."""
        return row.state, row.get_state_display()

    def get_urls(self) -> list[URLPattern]:
        """Add the verbs and the single files of a proposal."""
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:proposal_id>/approve/", wrap(self.approve), name="proposal_approve"),
            path("<uuid:proposal_id>/reject/", wrap(self.reject), name="proposal_reject"),
            path("<uuid:proposal_id>/test/", wrap(self.test), name="proposal_test"),
            path("<uuid:proposal_id>/file/", wrap(self.file), name="proposal_file"),
            *super().get_urls(),
        ]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the review page."""
        proposal = self.found(request, object_id)
        return self._review(request, proposal)

    def approve(self, request: HttpRequest, proposal_id: Any) -> HttpResponse:
        """Ask once more, or approve: admit exactly what the page showed."""
        if request.method != "POST":
            return self._review(request, self.found(request, str(proposal_id)), asking="approve")

        def verb(reviewer: User) -> str:
            done = services.approve_proposal(
                proposal_id=proposal_id,
                reviewer=reviewer,
                compared_with=request.POST.get("compared_with", ""),
            )
            return f"{done.ref} is admitted and active."

        return self._act(request, proposal_id, "proposal.approve_refused", verb)

    def reject(self, request: HttpRequest, proposal_id: Any) -> HttpResponse:
        """Ask for the reason, or reject with it."""
        if request.method != "POST":
            return self._review(request, self.found(request, str(proposal_id)), asking="reject")

        def verb(reviewer: User) -> str:
            done = services.reject_proposal(
                proposal_id=proposal_id,
                reviewer=reviewer,
                reason=request.POST.get("reason", ""),
            )
            return f"{done.ref} is rejected. {done.author.name} sees your reason."

        return self._act(request, proposal_id, "proposal.reject_refused", verb)

    @method_decorator(require_POST)
    def test(self, request: HttpRequest, proposal_id: Any) -> HttpResponse:
        """Run the proposal's tests once more."""

        def verb(reviewer: User) -> str:
            services.request_test(proposal_id=proposal_id, member=reviewer)
            return "The tests are queued. Load the page again to see them run."

        return self._act(request, proposal_id, "proposal.test_refused", verb)

    def file(self, request: HttpRequest, proposal_id: Any) -> HttpResponse:
        """Hand out one file, byte for byte, as something that no browser runs."""
        proposal = self.found(request, str(proposal_id))
        raw = stored_file(proposal, request.GET.get("path", ""))
        if raw is None:
            raise Http404("The proposal has no such file.")
        answer = HttpResponse(raw, content_type="text/plain; charset=utf-8")
        answer["Content-Security-Policy"] = "default-src 'none'; sandbox"
        answer["X-Content-Type-Options"] = "nosniff"
        return answer

    def _review(
        self, request: HttpRequest, proposal: PackageProposal, asking: str = ""
    ) -> HttpResponse:
        sheet = review_sheet(
            proposal, reviewer=acting_user(request), only_file=request.GET.get("file")
        )
        return self.page(
            request,
            "admin/proposals/review.html",
            proposal.ref.replace("@", " "),
            sheet=sheet,
            original=proposal,
            proposal=proposal,
            asking=asking,
            only_file=request.GET.get("file"),
        )

    def _act(
        self, request: HttpRequest, proposal_id: Any, refused_action: str, verb: Any
    ) -> HttpResponse:
        """Call one verb; a refusal is said, and recorded once its transaction is gone."""
        reviewer = acting_user(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            messages.success(request, verb(reviewer))
        except Refusal as refusal:
            record_refusal(
                actor=reviewer,
                action=refused_action,
                subject=f"packageproposal:{proposal_id}",
                refusal=refusal,
            )
            messages.error(request, refusal.message)
        page = reverse("admin:proposals_packageproposal_change", args=[proposal_id])
        return HttpResponseRedirect(page)
