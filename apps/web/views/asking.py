"""When is a member asked? Their general mode, one for each agent and room, and what passes."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.approvals import wishes
from apps.approvals.models import ModeChoice
from apps.domain.policy import MemberMode
from apps.web.doors import member_page
from apps.web.forms import ChosenMode, Forgotten

PAGE = 50
MAX_CHOICES = 200

_SAYS = {
    ModeChoice.Mode.AS_DECLARED: "Each tool says itself whether it asks. This is how it begins.",
    ModeChoice.Mode.FIRST_USE: (
        "Whatever changes something asks once for each exact call in a room; the same call then"
        " passes. What is sensitive asks every time."
    ),
    ModeChoice.Mode.ALWAYS: "Every call asks, reading included.",
    ModeChoice.Mode.NEVER: (
        "Nothing asks where the rules of this deployment allow that. It is written down each time."
    ),
}


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def asking(request: HttpRequest, member: User) -> HttpResponseBase:
    """Show and change when the member is asked."""
    if request.method == "POST":
        return _change(request, member)
    return _show(request, member, status=200)


def _change(request: HttpRequest, member: User) -> HttpResponseBase:
    forgotten = Forgotten(request.POST)
    if "remembered" in request.POST and forgotten.is_valid():
        wishes.forget(remembered_id=forgotten.cleaned_data["remembered"], member=member)
        return redirect("asking")
    form = ChosenMode(request.POST)
    if not form.is_valid():
        return _show(request, member, status=422)
    place = {
        "room_id": form.cleaned_data["room"],
        "agent_slug": form.cleaned_data["agent"],
    }
    if form.cleaned_data["mode"]:
        wishes.choose_mode(member=member, mode=form.cleaned_data["mode"], **place)
    else:
        wishes.forget_mode(member=member, **place)
    return redirect("asking")


def _show(request: HttpRequest, member: User, *, status: int) -> HttpResponseBase:
    choices = list(wishes.choices_of(member)[:MAX_CHOICES])
    general = next((choice.mode for choice in choices if choice.agent_id is None), None)
    page = Paginator(wishes.remembered_by(member), PAGE).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "general": general or MemberMode.AS_DECLARED.value,
        "modes": [(mode.value, mode.label, _SAYS[mode]) for mode in ModeChoice.Mode],
        "places": [choice for choice in choices if choice.agent_id is not None],
        "page": page,
        "section": "approvals",
    }
    return render(request, "web/asking.html", context, status=status)
