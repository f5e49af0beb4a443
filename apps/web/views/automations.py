"""What starts for a member by itself? Their automations, how each stands, and a new one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.automations import services
from apps.automations.models import Automation
from apps.automations.selectors import automations_of
from apps.automations.services import Granted
from apps.core.errors import NotFound, Refusal
from apps.web.doors import member_page
from apps.web.forms import ChangedAutomation, NewAutomation
from apps.web.selectors import automation_places

PAGE = 20
_FIELDS = {"expires_at": "days", "agent": "place", "room": "place"}


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def automations(request: HttpRequest, member: User) -> HttpResponseBase:
    """Show the member's automations, make one, or change one."""
    if request.method != "POST":
        return _show(request, member)
    if request.POST.get("do") == "create":
        return _create(request, member)
    return _change(request, member)


def _create(request: HttpRequest, member: User) -> HttpResponseBase:
    form = NewAutomation(automation_places(member), request.POST)
    if not form.is_valid():
        return _show(request, member, form=form, status=422)
    given = dict(form.cleaned_data)
    given["room_id"], given["agent_slug"] = given.pop("place")
    given["expires_at"] = timezone.now() + timedelta(days=given.pop("days"))
    try:
        granted = services.create_automation(member=member, **given)
    except Refusal as refusal:
        named = _FIELDS.get(refusal.field or "", refusal.field)
        form.add_error(named if named in form.fields else None, refusal.message)
        return _show(request, member, form=form, status=422)
    return redirect("automations") if granted.token is None else _show_token(request, granted)


def _change(request: HttpRequest, member: User) -> HttpResponseBase:
    form = ChangedAutomation(request.POST)
    if not form.is_valid():
        return _show(request, member, problem="There is nothing of that kind to do.", status=422)
    ident = form.cleaned_data["automation"]
    try:
        match form.cleaned_data["do"]:
            case "token":
                granted = services.rotate_start_token(automation_id=ident, member=member)
                return _show_token(request, granted)
            case "delete":
                services.delete_automation(automation_id=ident, member=member)
            case "revoke":
                _own(ident, member)
                services.revoke_automation(automation_id=ident, actor=member)
            case word:
                changes = {"enabled": word == "resume"}
                services.change_automation(automation_id=ident, member=member, changes=changes)
    except NotFound:
        raise
    except Refusal as refusal:
        return _show(request, member, problem=refusal.message, status=refusal.status)
    return redirect("automations")


def _own(ident: Any, member: User) -> None:
    """Keep this page to the member's own, whatever duty they have besides."""
    if not automations_of(member).filter(pk=ident).exists():
        raise NotFound("You have no such automation.")


def _show_token(request: HttpRequest, granted: Granted) -> HttpResponseBase:
    automation: Automation = granted.automation
    address = f"/api/v1/automations/{automation.pk}/start"
    return _show(
        request,
        automation.member,
        granted=granted,
        start_at=request.build_absolute_uri(address),
    )


def _show(
    request: HttpRequest,
    member: User,
    *,
    form: NewAutomation | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponseBase:
    places = automation_places(member)
    rows = automations_of(member).order_by("-created_at", "-pk")
    # The form stands below the list: whoever is refused would see nothing of the reason there.
    at_fault = next((name for name in form.fields if name in form.errors), None) if form else None
    if form is not None and at_fault is not None:
        form.fields[at_fault].widget.attrs["autofocus"] = True
    context: dict[str, Any] = {
        "page": Paginator(rows, PAGE).get_page(request.GET.get("page")),
        "form": NewAutomation(places) if form is None else form,
        "places": places,
        "section": "automations",
        **more,
    }
    return render(request, "web/automations.html", context, status=status)
