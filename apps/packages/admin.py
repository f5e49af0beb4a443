"""How do administrators look after what has been admitted?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display

from apps.accounts.identity import acting_user
from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.refusals import record_refusal
from apps.core.admin import (
    Card,
    Cell,
    Fact,
    Sheet,
    SheetAdmin,
    Verb,
    code,
    digest,
    moment,
    path_of,
    person,
    plural,
)
from apps.core.errors import Refusal
from apps.packages import services
from apps.packages.models import Package, PackageFile, PackageVersion

VERSIONS_SHOWN = 50


class SwitchFilter(DropdownFilter):
    """Packages that are on, or off."""

    title = "switch"
    parameter_name = "switch"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Name both states."""
        return [("on", "On"), ("off", "Off")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the chosen state."""
        if self.value() not in ("on", "off"):
            return queryset
        return queryset.filter(disabled_at__isnull=self.value() == "on")


@admin.register(Package)
class PackageAdmin(SheetAdmin):
    """Packages, and the switch that stops every call of one."""

    list_display = ("name", "active", "switch", "author_name", "version_count", "updated_at")
    list_filter = (SwitchFilter,)
    search_fields = ("name", "author__username")
    search_help_text = "Package or author"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List packages with what stands in their row."""
        return (
            Package.objects.select_related("author", "active_version")
            .annotate(number=Count("versions"))
            .order_by("name")
        )

    @display(description="Active version")
    def active(self, row: Any) -> str:
        """Name the active version."""
        return row.active_version.version if row.active_version else "none"

    @display(description="Switch", label={"On": "success", "Off": "danger"})
    def switch(self, row: Any) -> str:
        """Say whether the package is on."""
        return "Off" if row.disabled_at else "On"

    @display(description="Author")
    def author_name(self, row: Any) -> str:
        """Name the author."""
        return str(row.author.name)

    @display(description="Versions")
    def version_count(self, row: Any) -> int:
        """Count what was admitted."""
        return int(row.number)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a package: its switch, its versions, and the active one's tools and files."""
        versions = list(
            obj.versions.select_related("author", "admitted_by").order_by("-created_at")[
                :VERSIONS_SHOWN
            ]
        )
        active = obj.active_version
        off = obj.disabled_at is not None
        return Sheet(
            title=obj.name,
            icon="deployed_code",
            summary=f"{active.format_title if active else 'Package'} by {obj.author.name}.",
            tags=[Cell("Off", "bad", "block") if off else Cell("On", "ok", "check_circle")],
            verbs=self._verbs(request, obj),
            cards=[
                *([_tools_card(active), _files_card(active)] if active else []),
                Card(
                    "Versions",
                    headers=("Version", "Admitted", "By", "Author", "Bytes"),
                    rows=[
                        (
                            Cell(version.version, href=path_of(version)),
                            moment(version.created_at),
                            person(version.admitted_by),
                            person(version.author),
                            digest(version.artifact_hash),
                        )
                        for version in versions
                    ],
                ),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Author", person(obj.author)),
                        Fact("Active", Cell(active.version) if active else Cell("none")),
                        Fact("Switched off", moment(obj.disabled_at)),
                        Fact("First admitted", moment(obj.created_at)),
                    ],
                ),
            ],
        )

    def get_urls(self) -> list[URLPattern]:
        """Add the two positions of the switch."""
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:package_id>/disable/", wrap(self.disable), name="package_disable"),
            path("<uuid:package_id>/enable/", wrap(self.enable), name="package_enable"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    def disable(self, request: HttpRequest, package_id: Any) -> HttpResponse:
        """Switch a package off."""

        def verb(actor: User) -> str:
            done = services.disable_package(package_id=package_id, actor=actor)
            return f"{done.name} is switched off."

        return self._act(request, package_id, "package.disable_refused", verb)

    @method_decorator(require_POST)
    def enable(self, request: HttpRequest, package_id: Any) -> HttpResponse:
        """Switch a package on again."""

        def verb(actor: User) -> str:
            done = services.enable_package(package_id=package_id, actor=actor)
            return f"{done.name} is switched on."

        return self._act(request, package_id, "package.enable_refused", verb)

    def _act(
        self, request: HttpRequest, package_id: Any, refused: str, verb: Callable[[User], str]
    ) -> HttpResponse:
        actor = acting_user(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            messages.success(request, verb(actor))
        except Refusal as refusal:
            record_refusal(
                actor=actor, action=refused, subject=f"package:{package_id}", refusal=refusal
            )
            messages.error(request, refusal.message)
        return HttpResponseRedirect(reverse("admin:packages_package_change", args=[package_id]))

    def _verbs(self, request: HttpRequest, package: Package) -> list[Verb]:
        if not may(acting_user(request), Permission.PACKAGE_MANAGE):
            return []
        if package.disabled_at is None:
            return [
                Verb(
                    reverse("admin:package_disable", args=[package.pk]),
                    "Switch off",
                    f"No agent calls a tool of {package.name} from then on, whatever it was"
                    " granted. Calls that run already go on to their end.",
                    "bad",
                )
            ]
        return [
            Verb(
                reverse("admin:package_enable", args=[package.pk]),
                "Switch on",
                f"Agents that were granted tools of {package.name} can call them again.",
                "primary",
            )
        ]


@admin.register(PackageVersion)
class PackageVersionAdmin(SheetAdmin):
    """Admitted versions, which never change."""

    list_display = ("ref", "author", "admitted_by", "created_at")
    search_fields = ("ref",)
    list_select_related = ("author", "admitted_by")
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List versions with their people."""
        return PackageVersion.objects.select_related("author", "admitted_by", "package")

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show a version: its digests, tools and files."""
        is_active = obj.package.active_version_id == obj.pk
        return Sheet(
            title=obj.ref.replace("@", " "),
            icon="deployed_code",
            summary=f"Admitted by {obj.admitted_by.name}, written by {obj.author.name}.",
            tags=[Cell("Active", "ok") if is_active else Cell("Not active", "quiet")],
            cards=[
                _tools_card(obj),
                _files_card(obj),
                Card(
                    "Facts",
                    aside=True,
                    facts=[
                        Fact("Package", Cell(obj.package.name, href=path_of(obj.package))),
                        Fact("Admitted", moment(obj.created_at)),
                        Fact("Bytes", digest(obj.artifact_hash)),
                        Fact("Contract", digest(obj.contract_digest)),
                    ],
                ),
            ],
        )


def _tools_card(version: PackageVersion) -> Card:
    return Card(
        f"Tools of {version.version}",
        headers=("Name", "Definition", "Asks", "Entry"),
        rows=[
            (
                code(tool.name),
                code(tool.definition_id),
                Cell("passes")
                if tool.definition.get("mutating") is False
                else Cell("every time", "info"),
                code(tool.entry),
            )
            for tool in version.tools.order_by("name")
        ],
    )


def _files_card(version: PackageVersion) -> Card:
    files = PackageFile.objects.filter(version=version).annotate(size=F("blob__size"))
    total = files.aggregate(total=Sum("blob__size"))["total"] or 0
    rows = [(code(file.path), Cell(f"{file.size:,}"), digest(file.blob_id)) for file in files]
    return Card(
        f"Files of {version.version}",
        headers=("Path", "Bytes", "Digest"),
        rows=rows,
        note=f"{plural(len(rows), 'file')}, {total:,} bytes",
    )
