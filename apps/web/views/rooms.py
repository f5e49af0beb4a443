"""Where does a member meet people and agents?"""

from __future__ import annotations

import uuid
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.models import User
from apps.core.errors import Invalid
from apps.rooms.models import Room
from apps.rooms.selectors import visible_room
from apps.rooms.services import create_room
from apps.web.doors import member_page
from apps.web.forms import NewRoom
from apps.web.selectors import listed_rooms
from apps.web.snapshot import room_snapshot

PAGE = 30


@require_safe
@member_page
def rooms(request: HttpRequest, member: User) -> HttpResponseBase:
    """List the member's rooms, latest activity first."""
    page = Paginator(listed_rooms(member), PAGE).get_page(request.GET.get("page"))
    return render(request, "web/rooms.html", {"page": page, "form": NewRoom(), "section": "rooms"})


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def new_room(request: HttpRequest, member: User) -> HttpResponseBase:
    """Open a room under a name."""
    form = NewRoom(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            room = create_room(creator=member, name=form.cleaned_data["name"])
        except Invalid as refusal:
            form.add_error("name", refusal.message)
        else:
            return redirect("room", room_id=room.pk)
    status = 422 if form.is_bound else 200
    return render(request, "web/new_room.html", {"form": form, "section": "rooms"}, status=status)


@require_safe
@member_page
def room(request: HttpRequest, member: User, room_id: uuid.UUID) -> HttpResponseBase:
    """Show one room: its conversation and what is being made in it."""
    found = visible_room(room_id=room_id, user=member)
    return render(
        request,
        "web/room.html",
        {"room": found, "page_data": _page_data(found, member), "section": "rooms"},
    )


def _page_data(room: Room, member: User) -> dict[str, Any]:
    return {
        "room": {"id": str(room.pk), "name": room.name, "closed": room.closed_at is not None},
        "me": {"id": member.pk, "username": member.username, "name": member.name},
        # The first paint needs no socket; the socket then goes on behind this position.
        "position": room.position,
        "snapshot": room_snapshot(room, member),
    }
