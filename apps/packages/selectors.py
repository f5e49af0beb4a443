"""What has been admitted, what is active, and which exact bytes may run?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import F, Prefetch, QuerySet

from apps.accounts.models import User
from apps.core.blobs import get_blobs
from apps.domain.packagetree import tree_digest
from apps.packages.errors import PackageNotFound, TreeMismatch
from apps.packages.models import Package, PackageFile, PackageTool, PackageVersion


def packages_for(member: User) -> QuerySet[Package]:
    """Return the packages that a member may look up: everything admitted, for everyone active."""
    if not member.is_active:
        return Package.objects.none()
    return Package.objects.select_related(
        "author", "active_version__author", "active_version__admitted_by"
    ).prefetch_related(
        Prefetch("active_version__tools", queryset=PackageTool.objects.order_by("name"))
    )


def package_named(*, name: str, member: User) -> Package:
    """Return one package with all its versions and their tools, or refuse."""
    versions = (
        PackageVersion.objects.select_related("author", "admitted_by")
        .prefetch_related("tools")
        .order_by("-created_at")
    )
    package = (
        packages_for(member)
        .prefetch_related(Prefetch("versions", queryset=versions))
        .filter(name=name)
        .first()
    )
    if package is None:
        raise PackageNotFound("No package has that name.")
    return package


def active_version_of(name: str) -> PackageVersion | None:
    """Return the active version of a package, disabled or not, if it has one."""
    return (
        PackageVersion.objects.select_related("package", "author")
        .prefetch_related("tools")
        .filter(package__name=name, package__active_version_id__isnull=False)
        .filter(pk__in=Package.objects.filter(name=name).values("active_version_id"))
        .first()
    )


def active_package_tools() -> QuerySet[PackageTool]:
    """Return the tools of the active version of every package that is switched on."""
    return (
        PackageTool.objects.filter(
            version__package__active_version_id=F("version_id"), version__package__disabled_at=None
        )
        .select_related("version__package")
        .order_by("name")
    )


def admitted_tool(*, ref: str, tool_name: str) -> PackageTool:
    """Return one exact tool of one exact admitted version, or refuse."""
    tool = (
        PackageTool.objects.select_related("version__package")
        .filter(version__ref=ref, name=tool_name)
        .first()
    )
    if tool is None:
        raise PackageNotFound("No admitted version has that tool.")
    return tool


def load_tree(version: PackageVersion) -> dict[str, bytes]:
    """Return the files of an admitted version, once they still hash to what was admitted."""
    tree = read_tree(
        PackageFile.objects.filter(version=version).order_by("path").values_list("path", "blob_id")
    )
    if tree_digest(tree) != version.artifact_hash:
        raise TreeMismatch(
            f"The stored bytes of {version.ref} are not the bytes that were admitted. It will not"
            " run. Tell an administrator."
        )
    return tree


def read_tree(paths: Iterable[tuple[str, str]]) -> dict[str, bytes]:
    """Return the bytes behind pairs of path and digest; a missing body is left out."""
    pairs = list(paths)
    bodies = get_blobs(digest for _, digest in pairs)
    return {path: bodies[digest] for path, digest in pairs if digest in bodies}


def held_blobs() -> list[Any]:
    """Name the digests that admitted files point at."""
    return list(PackageFile.objects.values_list("blob_id", flat=True).distinct())
