"""What waits for the member's yes or no?"""

from __future__ import annotations

import uuid
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import request_for
from apps.web.doors import member_page
from apps.web.selectors import (
    SHOWS,
    WAITING,
    asking_agents,
    by_agent,
    decided_requests,
    requests_shown,
    waiting_count,
)

LATELY = 10
PAGE = 50
MAX_AGENT = 40


@require_safe
@member_page
def inbox(
    request: HttpRequest, member: User, approval_id: uuid.UUID | None = None
) -> HttpResponseBase:
    """Show the inbox, with one request open where the address names it."""
    if approval_id is not None:
        request_for(approval_id=approval_id, decider=member)
    data = {
        "me": {"id": member.pk, "username": member.username, "name": member.name},
        "open": None if approval_id is None else str(approval_id),
    }
    context = {**_listing(request, member), "page_data": data, "section": "approvals"}
    return render(request, "web/approvals.html", context)


@require_safe
@member_page
def listing(request: HttpRequest, member: User) -> HttpResponseBase:
    """Show the list alone, for a page that fetches it anew."""
    return render(request, "web/parts/requests.html", _listing(request, member))


@require_safe
@member_page
def count(request: HttpRequest, member: User) -> HttpResponseBase:
    """Show how many requests wait, for the navigation."""
    return render(request, "web/parts/waiting.html", {"nav_waiting": waiting_count(member)})


def _listing(request: HttpRequest, member: User) -> dict[str, Any]:
    asked = request.GET.get("show", "")
    show = asked if asked in SHOWS else WAITING
    agent = request.GET.get("agent", "")[:MAX_AGENT]
    rows = by_agent(requests_shown(member, show), agent)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    return {
        "show": show,
        "shows": SHOWS.items(),
        "agent": agent,
        "agents": asking_agents(member),
        "page": page,
        "groups": _groups(page.object_list) if show == WAITING else [],
        "decided": by_agent(decided_requests(member), agent)[:LATELY] if show == WAITING else [],
    }


def _groups(rows: Any) -> list[tuple[list[ApprovalRequest], str]]:
    """Where a person started the run, a person waits; other runs can wait for longer."""
    waiting = list(rows)
    started = [row for row in waiting if not row.call.run.unattended]
    alone = [row for row in waiting if row.call.run.unattended]
    groups = ((started, "Someone is waiting"), (alone, "Runs no one started"))
    return [(group, words) for group, words in groups if group]
