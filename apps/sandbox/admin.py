"""What do administrators see of workspaces? How much they hold and who works in them; no bytes."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.decorators import display

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
    plural,
)
from apps.domain.tooling import CallState
from apps.sandbox.contents import MAX_BYTES, MAX_FILES
from apps.sandbox.models import Lease, Workspace

FILES_SHOWN = 100


@admin.register(Workspace)
class WorkspaceAdmin(SheetAdmin):
    """Workspaces, their sizes and their leases."""

    list_display = ("owner_name", "room", "files", "bytes", "lease_state", "node", "updated_at")
    list_filter = (("updated_at", DayRangeFilter),)
    search_fields = ("owner__username", "room__name")
    search_help_text = "Owner or room"
    ordering = ("-updated_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List workspaces with owner, room, lease and its call."""
        rows: QuerySet[Any] = Workspace.objects.select_related("owner", "room", "lease__call")
        return rows

    @display(description="Owner")
    def owner_name(self, row: Any) -> str:
        """Name the owner."""
        return str(row.owner.name)

    @display(description="Files", ordering="files_count")
    def files(self, row: Any) -> str:
        """Say how many files there are."""
        return f"{row.files_count:,}"

    @display(description="Bytes", ordering="files_bytes")
    def bytes(self, row: Any) -> str:
        """Say how many bytes they have."""
        return f"{row.files_bytes:,}"

    @display(description="Lease", label={"in use": "info", "free": "default"})
    def lease_state(self, row: Any) -> str:
        """Say whether a call works in it."""
        return "in use" if _held(_lease(row)) else "free"

    @display(description="Node")
    def node(self, row: Any) -> str:
        """Name the node of who works in it, or of what lives on in it."""
        lease = _lease(row)
        if lease is None:
            return "—"
        return (lease.node if _held(lease) else lease.kernel_node) or "—"

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a workspace's files by name and size, and its lease."""
        lease = _lease(obj)
        held = _held(lease)
        files = obj.files.order_by("path")[:FILES_SHOWN]
        return Sheet(
            title=f"{obj.owner.name} in {obj.room.name}",
            icon="folder",
            summary="What its files hold is for their owner alone.",
            tags=[Cell("in use", "info") if held else Cell("free", "quiet")],
            cards=[
                Card(
                    "Files",
                    note=f"the first {FILES_SHOWN}" if obj.files_count > FILES_SHOWN else "",
                    headers=("Path", "Bytes", "Program", "Changed", "Digest"),
                    rows=[
                        (
                            code(one.path),
                            Cell(f"{one.size:,}"),
                            Cell("yes" if one.executable else "—"),
                            moment(one.changed_at),
                            digest(one.blob_id),
                        )
                        for one in files
                    ],
                    empty="No files.",
                ),
                Card(
                    "Lease",
                    aside=True,
                    facts=[
                        Fact("Call", _call(lease) if held and lease else Cell("—")),
                        Fact("Since", moment(lease.taken_at if held and lease else None)),
                        Fact("At most until", moment(lease.expires_at if held and lease else None)),
                        Fact("Node", code(lease.node if lease else "")),
                        Fact("Kernel lives on", code(lease.kernel_node if lease else "")),
                        Fact("Fence", code(lease.fence if lease else 0)),
                    ],
                ),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Owner", person(obj.owner)),
                        Fact("Room", Cell(obj.room.name, href=path_of(obj.room))),
                        Fact("Files", Cell(f"{obj.files_count:,} of {MAX_FILES:,}")),
                        Fact("Bytes", Cell(f"{obj.files_bytes:,} of {MAX_BYTES:,}")),
                        Fact("Retained texts", Cell(plural(obj.snapshots.count(), "text"))),
                        Fact("Registers", Cell(f"{obj.registers.count():,}")),
                        Fact("Made", moment(obj.created_at)),
                        Fact("Last used", moment(obj.updated_at)),
                        Fact("Id", code(obj.pk)),
                    ],
                ),
            ],
        )


def _lease(row: Any) -> Lease | None:
    found: Lease | None = getattr(row, "lease", None)
    return found


def _held(lease: Lease | None) -> bool:
    if lease is None or lease.expires_at is None or lease.expires_at < timezone.now():
        return False
    return lease.call is None or lease.call.state != CallState.SETTLED.value


def _call(lease: Lease) -> Cell:
    if lease.call is None:
        return Cell("—")
    return Cell(str(lease.call.pk)[:8], mono=True, href=path_of(lease.call))
