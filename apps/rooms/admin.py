"""What do administrators see of rooms? Who takes part, and when; never what is said."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display

from apps.core.admin import Card, Cell, Fact, Sheet, SheetAdmin, code, moment, person
from apps.rooms.models import Room

PEOPLE_SHOWN = 200
EVENTS_SHOWN = 50


class OpenFilter(DropdownFilter):
    """Rooms that are open, or closed."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Name both states."""
        return [("open", "Open"), ("closed", "Closed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the chosen state."""
        if self.value() not in ("open", "closed"):
            return queryset
        return queryset.filter(closed_at__isnull=self.value() == "open")


@admin.register(Room)
class RoomAdmin(SheetAdmin):
    """Rooms and their rosters."""

    list_display = ("name", "state", "owner", "people", "position", "updated_at")
    list_filter = (OpenFilter,)
    search_fields = ("name", "created_by__username")
    search_help_text = "Name or owner"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List rooms with how many take part."""
        present = Count("participants", filter=Q(participants__left_at=None))
        return (
            Room.objects.select_related("created_by")
            .annotate(present=present)
            .order_by("-updated_at")
        )

    @display(description="State", label={"Open": "success", "Closed": "default"})
    def state(self, row: Any) -> str:
        """Say whether the room takes something new."""
        return "Closed" if row.closed_at else "Open"

    @display(description="Owner")
    def owner(self, row: Any) -> str:
        """Name who opened it."""
        return str(row.created_by.name)

    @display(description="People")
    def people(self, row: Any) -> int:
        """Count who takes part."""
        return int(row.present)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a room's roster, and which kinds of events happened last."""
        places = obj.participants.select_related("user").order_by("joined_at")[:PEOPLE_SHOWN]
        events = obj.events.order_by("-position").only("position", "kind", "actor", "at")
        return Sheet(
            title=obj.name,
            icon="forum",
            summary=f"Opened by {obj.created_by.name}.",
            tags=[Cell("Closed", "quiet") if obj.closed_at else Cell("Open", "ok")],
            cards=[
                Card(
                    "People",
                    headers=("Member", "Role", "Joined", "Left"),
                    rows=[
                        (
                            person(place.user),
                            Cell(place.get_role_display()),
                            moment(place.joined_at),
                            moment(place.left_at),
                        )
                        for place in places
                    ],
                ),
                Card(
                    "Latest events",
                    note="kinds only: what is said stays in the room",
                    headers=("Position", "When", "Kind", "Actor"),
                    rows=[
                        (code(one.position), moment(one.at), code(one.kind), code(one.actor))
                        for one in events[:EVENTS_SHOWN]
                    ],
                ),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Opened", moment(obj.created_at)),
                        Fact("Closed", moment(obj.closed_at)),
                        Fact("Position", code(obj.position)),
                        Fact("Roster revision", code(obj.roster_revision)),
                        Fact("Id", code(obj.pk)),
                    ],
                ),
            ],
        )
