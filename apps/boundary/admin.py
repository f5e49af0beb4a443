"""How do administrators keep the tool policy? One page for the tree, one for what is pinned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from unfold.decorators import display

from apps.accounts.identity import acting_user
from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.refusals import record_refusal
from apps.boundary.explaining import explain_call, questions
from apps.boundary.pins_sheet import pins_form, values_of
from apps.boundary.policy_preview import policy_preview
from apps.boundary.policy_sheet import SHOWS, Asked, policy_sheet
from apps.core.admin import Card, Cell, Fact, Sheet, SheetAdmin, Verb, code, moment, person
from apps.core.errors import Refusal
from apps.domain.policy import NodeState, Path
from apps.domain.tooling import Specification
from apps.grants import services
from apps.grants.errors import BadPolicy, NothingPinned
from apps.grants.models import PinnedArguments, PolicyNode, PolicyState
from apps.tools.endpoints import specification_at

TREE = "admin:grants_policynode_changelist"
PINS = "admin:grants_pinnedarguments_changelist"
MAX_QUERY = 100
MAX_OPENED = 50


@admin.register(PolicyNode)
class PolicyAdmin(SheetAdmin):
    """The tool policy."""

    def get_urls(self) -> list[URLPattern]:
        """Add the look before saving, the saving, and the explanation."""
        wrap = self.admin_site.admin_view
        return [
            path("preview/", wrap(self.preview), name="policy_preview"),
            path("save/", wrap(self.save), name="policy_save"),
            path("explain/", wrap(self.explain), name="policy_explain"),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the tree."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        sheet = policy_sheet(_asked(request.GET))
        return self.page(
            request,
            "admin/policy/tree.html",
            "Tool policy",
            sheet=sheet,
            may_change=may(acting_user(request), Permission.POLICY_MANAGE),
        )

    @method_decorator(require_POST)
    def preview(self, request: HttpRequest) -> HttpResponse:
        """Show what a change would do, before it is one."""
        actor = _keeper(request)
        try:
            revision, changes = _revision(request.POST), _changes(request.POST)
            services.check_changes(actor=actor, revision=revision, changes=changes)
        except Refusal as refusal:
            return _refused(request, actor, "policy.change_refused", refusal, TREE)
        preview = policy_preview(changes)
        if not preview.changes:
            messages.info(request, "Nothing is changed, so there is nothing to save.")
            return HttpResponseRedirect(reverse(TREE))
        return self.page(
            request,
            "admin/policy/preview.html",
            "Look over the change",
            preview=preview,
            revision=revision,
        )

    @method_decorator(require_POST)
    def save(self, request: HttpRequest) -> HttpResponse:
        """Change the policy."""
        actor = _keeper(request)
        try:
            state = services.change_policy(
                actor=actor,
                revision=_revision(request.POST),
                changes=_changes(request.POST),
                note=request.POST.get("note", ""),
            )
        except Refusal as refusal:
            return _refused(request, actor, "policy.change_refused", refusal, TREE)
        messages.success(request, f"Saved as revision {state.revision}. It holds from now on.")
        return HttpResponseRedirect(reverse(TREE))

    def explain(self, request: HttpRequest) -> HttpResponse:
        """Say what would become of a call, and why."""
        actor = _keeper(request)
        asked = {
            name: request.GET.get(name, "").strip()[:MAX_QUERY].replace("\x00", "")
            for name in ("agent", "room", "tool", "member", "automation")
        }
        explained, refusal = None, ""
        if asked["tool"]:
            try:
                explained = explain_call(
                    asker=actor,
                    tool_name=asked["tool"],
                    agent_slug=asked["agent"],
                    room_id=asked["room"],
                    username=asked["member"],
                    automation_id=asked["automation"],
                )
            except Refusal as refused:
                refusal = refused.message
        return self.page(
            request,
            "admin/policy/explain.html",
            "Try a call",
            asked=asked,
            explained=explained,
            refusal=refusal,
            questions=questions(),
        )


@admin.register(PinnedArguments)
class PinnedArgumentsAdmin(SheetAdmin):
    """What the deployment sets itself."""

    list_display = ("tool", "family", "surface", "arguments", "changed", "updated_at")
    search_fields = ("endpoint", "surface")
    search_help_text = "Tool or surface"
    ordering = ("family", "surface", "endpoint")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List them with who set them."""
        return PinnedArguments.objects.select_related("changed_by")

    @display(description="Tool")
    def tool(self, row: Any) -> str:
        """Name the tool."""
        return str(row.endpoint)

    @display(description="Arguments")
    def arguments(self, row: Any) -> str:
        """Name the arguments."""
        return ", ".join(sorted(row.values)) if isinstance(row.values, Mapping) else "unreadable"

    @display(description="Set by")
    def changed(self, row: Any) -> str:
        """Name who set them."""
        return str(row.changed_by.name)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show what is set, as JSON."""
        values = obj.values if isinstance(obj.values, Mapping) else {}
        verbs = []
        if may(acting_user(request), Permission.POLICY_MANAGE):
            words = "Callers set these arguments again. Runs that go on find the tool changed."
            verbs = [
                Verb(reverse("admin:pins_remove", args=obj.path), "Remove all", words, "bad"),
            ]
        return Sheet(
            title=f"Pinned for {obj.endpoint}",
            icon="push_pin",
            summary="No model sees these arguments, and no call can name them.",
            verbs=verbs,
            cards=[
                Card(
                    "Values",
                    headers=("Argument", "Always is"),
                    rows=[
                        (code(name), code(json.dumps(values[name], ensure_ascii=False)))
                        for name in sorted(values)
                    ],
                ),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Set by", person(obj.changed_by)),
                        Fact("Set", moment(obj.updated_at)),
                        Fact("Note", Cell(obj.note or "—")),
                        Fact(
                            "Change",
                            Cell("Set other values", href=reverse("admin:pins_set", args=obj.path)),
                        ),
                    ],
                ),
            ],
        )

    def get_urls(self) -> list[URLPattern]:
        """Add the form for one tool, and the way back."""
        wrap = self.admin_site.admin_view
        tool = "<str:family>/<str:surface>/<str:endpoint>/"
        return [
            path(f"set/{tool}", wrap(self.set_pins), name="pins_set"),
            path(f"remove/{tool}", wrap(self.remove_pins), name="pins_remove"),
            *super().get_urls(),
        ]

    def set_pins(self, request: HttpRequest, **words: str) -> HttpResponse:
        """Show and take the form that pins arguments of one tool."""
        actor = _keeper(request)
        node: Path = (words["family"], words["surface"], words["endpoint"])
        spec = specification_at(node)
        if spec is None:
            messages.error(request, "There is no such tool to pin arguments of.")
            return HttpResponseRedirect(reverse(PINS))
        texts, refusal = None, None
        if request.method == "POST":
            typed = ((name, str(text)) for name, text in request.POST.items())
            texts = {name[4:]: text for name, text in typed if name[:4] == "arg:"}
            try:
                return self._pinned(request, actor, spec, texts)
            except Refusal as refused:
                _note_refusal(actor, "policy.pin_refused", refused)
                refusal = refused
        return self.page(
            request,
            "admin/policy/pins.html",
            f"Pin arguments of {spec.name}",
            form=pins_form(node, spec, texts=texts, refusal=refusal),
            note=request.POST.get("note"),
        )

    def _pinned(
        self, request: HttpRequest, actor: User, spec: Specification, texts: dict[str, str]
    ) -> HttpResponse:
        row = services.pin_arguments(
            actor=actor,
            spec=spec,
            values=values_of(texts),
            revision=_revision(request.POST),
            note=request.POST.get("note", ""),
        )
        messages.success(request, f"{row.endpoint} is called with these values from now on.")
        return HttpResponseRedirect(reverse("admin:grants_pinnedarguments_change", args=[row.pk]))

    @method_decorator(require_POST)
    def remove_pins(self, request: HttpRequest, **words: str) -> HttpResponse:
        """Leave all arguments of a tool to its callers."""
        actor = _keeper(request)
        node: Path = (words["family"], words["surface"], words["endpoint"])
        return self._act(request, actor, lambda: services.unpin_arguments(actor=actor, path=node))

    def _act(self, request: HttpRequest, actor: User, verb: Callable[[], None]) -> HttpResponse:
        try:
            verb()
        except NothingPinned as refusal:
            return _refused(request, actor, "policy.pin_refused", refusal, PINS)
        messages.success(request, "Nothing of this tool is pinned any more.")
        return HttpResponseRedirect(reverse(PINS))


def _keeper(request: HttpRequest) -> User:
    """Return the administrator whose duty the policy is, or refuse."""
    actor = acting_user(request)
    if not may(actor, Permission.POLICY_MANAGE):
        raise PermissionDenied
    return actor


def _refused(
    request: HttpRequest, actor: User, action: str, refusal: Refusal, back: str
) -> HttpResponse:
    _note_refusal(actor, action, refusal)
    messages.error(request, refusal.message)
    return HttpResponseRedirect(reverse(back))


def _note_refusal(actor: User, action: str, refusal: Refusal) -> None:
    record_refusal(actor=actor, action=action, subject=PolicyState().key, refusal=refusal)


def _asked(given: QueryDict) -> Asked:
    page = given.get("page", "1")
    show = given.get("show", "all")
    return Asked(
        query=given.get("q", "").strip()[:MAX_QUERY].replace("\x00", ""),
        show=show if show in SHOWS else "all",
        opened=tuple(given.getlist("open")[:MAX_OPENED]),
        page=int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1,
        why=given.get("why", "")[: 3 * MAX_QUERY],
    )


def _revision(given: QueryDict) -> int:
    text = given.get("revision", "")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadPolicy("The form does not say which revision it was made from.", field="revision")
    return int(text)


def _changes(given: QueryDict) -> dict[Path, NodeState]:
    changes: dict[Path, NodeState] = {}
    for name, value in given.items():
        kind, _, words = name.partition(":")
        if kind != "node":
            continue
        if value not in {state.value for state in NodeState}:
            raise BadPolicy("A node can be left alone, on or off.", field="state")
        changes[tuple(words.split("/")) if words else ()] = NodeState(str(value))
    return changes
