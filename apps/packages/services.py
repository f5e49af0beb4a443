"""How does a package come to be admitted, and how is it switched off?

A version is content-addressed and never changes: its number, once admitted, stands for those
bytes for ever. What is newest becomes active; grants keep naming the exact version they gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import record
from apps.core.blobs import put_blobs
from apps.domain.canonical import digest
from apps.domain.commandio.pins import CannotPin
from apps.domain.commandio.preparation import pins_of_package, refusal_of
from apps.domain.lockfiles import dependencies_of
from apps.domain.manifests import Manifest
from apps.domain.packagetree import tree_digest
from apps.packages.errors import (
    CannotPrepare,
    PackageNameTaken,
    PackageNotFound,
    PackageStateUnchanged,
    ToolNameTaken,
    VersionTaken,
)
from apps.packages.models import Package, PackageFile, PackageTool, PackageVersion
from apps.packages.names import reserved_names

# One key for "is admitting a package now"; it only has to differ from other advisory locks of ours.
_PUBLISH_LOCK = 0x6B7A9ACC


@transaction.atomic
def publish_package(
    *, manifest: Manifest, files: Mapping[str, bytes], author: User, admitted_by: User
) -> PackageVersion:
    """Admit a manifest and its tree as an immutable version, and make it the active one.

    The caller has judged the review; this keeps the rules that hold between packages.
    """
    # Two admissions at once could each see a name free, and both take it.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_PUBLISH_LOCK])
    artifact_hash = tree_digest(files)
    check_admissible(manifest=manifest, author=author)
    pins = pins_or_refuse(manifest, files)
    package, _ = Package.objects.get_or_create(name=manifest.name, defaults={"author": author})
    package = Package.objects.select_for_update(no_key=True).get(pk=package.pk)
    version = PackageVersion.objects.create(
        package=package,
        ref=manifest.ref,
        version=manifest.version,
        format=manifest.format,
        manifest=manifest.as_dict(),
        artifact_hash=artifact_hash,
        contract_digest=manifest.contract_digest,
        dependencies=dependencies_of(files).digest,
        author=author,
        admitted_by=admitted_by,
    )
    stored = put_blobs(files.values())
    PackageFile.objects.bulk_create(
        PackageFile(version=version, path=path, blob_id=stored[files[path]])
        for path in sorted(files)
    )
    PackageTool.objects.bulk_create(
        PackageTool(
            version=version,
            name=tool.tool_name,
            definition_id=tool.id,
            entry=tool.entry.label,
            collaboration_class=tool.collaboration.value,
            definition=tool.definition,
        )
        for tool in manifest.tools
    )
    package.active_version = version
    package.save(update_fields=["active_version", "updated_at"])
    record(
        actor=admitted_by,
        action="package.published",
        subject=package,
        digest=artifact_hash,
        detail={
            "ref": version.ref,
            "contract": version.contract_digest,
            "author": author.key,
            "tools": [tool.tool_name for tool in manifest.tools],
            "pins": digest(pins) if pins else None,
        },
    )
    return version


def pins_or_refuse(manifest: Manifest, files: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """Return what each program of a package stands on, or refuse what could never be prepared."""
    try:
        return pins_of_package(manifest, files)
    except CannotPin as problem:
        raise CannotPrepare(refusal_of(problem), field="tools") from None


def check_admissible(*, manifest: Manifest, author: User) -> None:
    """Refuse a manifest whose package, version or tool names are not free for its author."""
    package = Package.objects.filter(name=manifest.name).first()
    if package is not None and package.author_id != author.pk:
        raise PackageNameTaken(
            f"The package {manifest.name} belongs to another author.", field="name"
        )
    if PackageVersion.objects.filter(ref=manifest.ref).exists():
        raise VersionTaken(
            f"{manifest.ref} was admitted before. Give the changed bytes a new version number.",
            field="version",
        )
    _check_tool_names([tool.tool_name for tool in manifest.tools], package)


@transaction.atomic
def disable_package(*, package_id: Any, actor: User) -> Package:
    """Switch a package off: no tool of any of its versions is called from now on."""
    package = _lock(package_id)
    require(actor, Permission.PACKAGE_MANAGE)
    if package.disabled_at is not None:
        raise PackageStateUnchanged(f"{package.name} is switched off already.")
    package.disabled_at = timezone.now()
    package.save(update_fields=["disabled_at", "updated_at"])
    _record_switch(package, actor, "package.disabled")
    return package


@transaction.atomic
def enable_package(*, package_id: Any, actor: User) -> Package:
    """Switch a package on again."""
    package = _lock(package_id)
    require(actor, Permission.PACKAGE_MANAGE)
    if package.disabled_at is None:
        raise PackageStateUnchanged(f"{package.name} is not switched off.")
    package.disabled_at = None
    package.save(update_fields=["disabled_at", "updated_at"])
    _record_switch(package, actor, "package.enabled")
    return package


def _lock(package_id: Any) -> Package:
    package = (
        Package.objects.select_for_update(no_key=True, of=("self",))
        .select_related("active_version")
        .filter(pk=package_id)
        .first()
    )
    if package is None:
        raise PackageNotFound("There is no such package.")
    return package


def _record_switch(package: Package, actor: User, action: str) -> None:
    active = package.active_version
    record(
        actor=actor,
        action=action,
        subject=package,
        digest=active.artifact_hash if active else "",
        detail={"name": package.name, "active": active.ref if active else None},
    )


def _check_tool_names(names: list[str], package: Package | None) -> None:
    for name in names:
        if name.casefold() in reserved_names():
            raise ToolNameTaken(f"{name} is the name of a built-in tool.", field="tools")
    # A package that is switched off keeps its names, so that switching it on never clashes.
    others = Package.objects.exclude(pk=package.pk) if package else Package.objects.all()
    taken = (
        PackageTool.objects.filter(name__in=names, version__in=others.values("active_version"))
        .select_related("version__package")
        .first()
    )
    if taken is not None:
        raise ToolNameTaken(
            f"The package {taken.version.package.name} already has a tool named {taken.name}.",
            field="tools",
        )
