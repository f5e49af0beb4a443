"""What do administrators see of artifacts? Their versions and provenance; never their text."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from apps.artifacts.models import Artifact
from apps.artifacts.roles import people_of
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

VERSIONS_SHOWN = 100


@admin.register(Artifact)
class ArtifactAdmin(SheetAdmin):
    """Artifacts and their versions."""

    list_display = ("title", "kind", "owner_name", "room", "head", "updated_at")
    list_filter = (("kind", ChoicesDropdownFilter), ("updated_at", DayRangeFilter))
    search_fields = ("title", "owner__username", "room__name")
    search_help_text = "Title, owner or room"
    ordering = ("-updated_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List artifacts with owner and room."""
        return Artifact.objects.select_related("owner", "room")

    @display(description="Owner")
    def owner_name(self, row: Any) -> str:
        """Name the owner."""
        return str(row.owner.name)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show an artifact's versions and where each came from."""
        versions = obj.versions.select_related("author").order_by("-number")[:VERSIONS_SHOWN]
        return Sheet(
            title=obj.title,
            icon="draft",
            summary="What it says is for its owner and the people of its room.",
            tags=[Cell(obj.get_kind_display(), "quiet")],
            cards=[
                Card(
                    "Versions",
                    note=f"the latest {VERSIONS_SHOWN}" if obj.head > VERSIONS_SHOWN else "",
                    headers=("Version", "Saved", "By", "Agent", "Bytes", "Digest", "Call"),
                    rows=[
                        (
                            code(one.number),
                            moment(one.created_at),
                            person(one.author),
                            Cell(one.agent_name or "—"),
                            Cell(f"{one.size:,}"),
                            digest(one.blob_id),
                            code(str(one.call_id)[:8] if one.call_id else ""),
                        )
                        for one in versions
                    ],
                ),
                Card(
                    "Shared with",
                    aside=True,
                    facts=[
                        Fact(
                            "Collaborator" if getattr(one, "more", False) else "Reader", person(one)
                        )
                        for one in people_of(obj)
                    ]
                    or [Fact("Nobody", Cell("besides its room"))],
                ),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Owner", person(obj.owner)),
                        Fact("Room", Cell(obj.room.name, href=path_of(obj.room))),
                        Fact("Head", code(obj.head)),
                        Fact("Made", moment(obj.created_at)),
                        Fact("Changed", moment(obj.updated_at)),
                        Fact("Id", code(obj.pk)),
                    ],
                ),
            ],
        )
