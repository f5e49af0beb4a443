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
from apps.approvals.selectors import request_for
from apps.web.doors import member_page
from apps.web.selectors import decided_requests, waiting_count, waiting_requests

LATELY = 10
PAGE = 50


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
    decided = decided_requests(member)
    if request.GET.get("show") == "decided":
        page = Paginator(decided, PAGE).get_page(request.GET.get("page"))
        return {"show": "decided", "waiting": [], "decided": page.object_list, "page": page}
    return {"show": "waiting", "waiting": waiting_requests(member), "decided": decided[:LATELY]}
