"""What holds of admitted packages?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission as PermissionRow
from django.db import connection
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.core import blobs
from apps.core.errors import Forbidden
from apps.core.models import Blob
from apps.domain.manifests import parse_manifest
from apps.packages import services
from apps.packages.errors import (
    PackageNotFound,
    PackageStateUnchanged,
    ToolNameTaken,
    TreeMismatch,
    VersionTaken,
)
from apps.packages.models import Package, PackageVersion
from apps.packages.selectors import active_version_of, admitted_tool, load_tree
from tests.factories import packages as made

pytestmark = pytest.mark.django_db


@pytest.fixture
def author(db: None) -> User:
    return User.objects.create_user("mara")


@pytest.fixture
def keeper(db: None) -> User:
    user = User.objects.create_user("ines", is_staff=True, display_name="Ines Moreau")
    user.user_permissions.set(
        PermissionRow.objects.filter(
            codename__in=["manage_package", "view_package", "view_packageversion"]
        )
    )
    return User.objects.get(pk=user.pk)


def admit(author: User, keeper: User, version: str = "1.0.0", **files: Any) -> PackageVersion:
    return services.publish_package(
        manifest=parse_manifest(made.manifest(version=version)),
        files=made.tree(version=version, **files),
        author=author,
        admitted_by=keeper,
    )


def test_the_newest_version_is_active_and_older_ones_stay(author: User, keeper: User) -> None:
    first = admit(author, keeper)
    second = admit(author, keeper, "1.1.0")
    active = active_version_of("weather")
    assert active == second
    assert load_tree(first) == made.tree()
    assert admitted_tool(ref="weather@1.0.0", tool_name="pkg_weather_convert").version == first


def test_a_version_number_stands_for_its_bytes_for_ever(author: User, keeper: User) -> None:
    admit(author, keeper)
    for files in ({}, {"weather_py": b"x = 1\n"}):
        with pytest.raises(VersionTaken):
            admit(author, keeper, **files)


def test_a_tool_name_of_an_older_version_is_free_again(author: User, keeper: User) -> None:
    admit(author, keeper)
    services.publish_package(
        manifest=parse_manifest(made.manifest("weather", "2.0.0", made.definition("w.other"))),
        files=made.tree(version="2.0.0"),
        author=author,
        admitted_by=keeper,
    )
    manifest = parse_manifest(made.manifest("climate"))
    services.check_admissible(manifest=manifest, author=author)


def test_a_package_that_is_off_keeps_its_names(author: User, keeper: User) -> None:
    version = admit(author, keeper)
    services.disable_package(package_id=version.package_id, actor=keeper)
    with pytest.raises(ToolNameTaken):
        services.check_admissible(manifest=parse_manifest(made.manifest("climate")), author=author)


def test_bytes_that_changed_in_the_store_do_not_run(author: User, keeper: User) -> None:
    version = admit(author, keeper)
    blob = version.files.get(path="weather.py").blob
    Blob.objects.filter(pk=blob.pk).update(content=b"import os\n")
    with pytest.raises(TreeMismatch):
        load_tree(version)


def test_a_path_that_changed_in_the_store_does_not_run(author: User, keeper: User) -> None:
    version = admit(author, keeper)
    version.files.filter(path="weather.py").update(path="whether.py")
    with pytest.raises(TreeMismatch):
        load_tree(version)


def test_the_switch_is_for_its_keepers_and_is_written_down(author: User, keeper: User) -> None:
    package = admit(author, keeper).package
    with pytest.raises(Forbidden):
        services.disable_package(package_id=package.pk, actor=author)
    services.disable_package(package_id=package.pk, actor=keeper)
    with pytest.raises(PackageStateUnchanged):
        services.disable_package(package_id=package.pk, actor=keeper)
    services.enable_package(package_id=package.pk, actor=keeper)
    with pytest.raises(PackageStateUnchanged):
        services.enable_package(package_id=package.pk, actor=keeper)
    assert list(
        AuditRow.objects.filter(subject=package.key).order_by("id").values_list("action", flat=True)
    ) == ["package.published", "package.disabled", "package.enabled"]


def test_an_unknown_package_is_not_found(keeper: User) -> None:
    with pytest.raises(PackageNotFound):
        services.disable_package(package_id="0" * 32, actor=keeper)
    with pytest.raises(PackageNotFound):
        admitted_tool(ref="a@1.0.0", tool_name="pkg_a")


def test_admitted_bytes_are_never_collected(author: User, keeper: User) -> None:
    version = admit(author, keeper)
    loose = blobs.put_blob(b"nobody points at this")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE core_blob SET touched_at = now() - interval '2 days'")
    blobs.collect_blobs()
    assert not Blob.objects.filter(pk=loose).exists()
    assert load_tree(version) == made.tree()


def test_members_look_packages_up(author: User, keeper: User) -> None:
    admit(author, keeper)
    admit(author, keeper, "1.1.0")
    api = APIClient()
    api.force_authenticate(author)
    (listed,) = api.get("/api/v1/packages").json()["results"]
    assert listed["active"]["ref"] == "weather@1.1.0"
    assert listed["active"]["tools"][0]["name"] == "pkg_weather_convert"
    one = api.get("/api/v1/packages/weather").json()
    assert [version["version"] for version in one["versions"]] == ["1.1.0", "1.0.0"]
    assert one["disabled"] is False
    assert api.get("/api/v1/packages/nothing").status_code == 404
    assert APIClient().get("/api/v1/packages").status_code == 401


def test_the_admin_shows_a_package_and_throws_its_switch(
    client: Client, author: User, keeper: User
) -> None:
    version = admit(author, keeper)
    client.force_login(keeper)
    page = reverse("admin:packages_package_change", args=[version.package_id])
    shown = client.get(page).content.decode()
    for words in ("weather", "pkg_weather_convert", "test_weather.py", "Switch off"):
        assert words in shown
    assert client.get(reverse("admin:packages_package_changelist")).status_code == 200
    assert (
        client.get(reverse("admin:packages_package_changelist") + "?switch=off").status_code == 200
    )
    version_page = reverse("admin:packages_packageversion_change", args=[version.pk])
    assert "Admitted by Ines Moreau" in client.get(version_page).content.decode()
    off = reverse("admin:package_disable", args=[version.package_id])
    assert client.get(off).status_code == 405
    assert "weather is switched off." in client.post(off, follow=True).content.decode()
    assert "is switched off already" in client.post(off, follow=True).content.decode()
    assert AuditRow.objects.filter(action="package.disable_refused").count() == 1
    on = reverse("admin:package_enable", args=[version.package_id])
    client.post(on)
    assert Package.objects.get().disabled_at is None


def test_the_switch_needs_the_duty(client: Client, author: User, keeper: User) -> None:
    version = admit(author, keeper)
    keeper.user_permissions.remove(PermissionRow.objects.get(codename="manage_package"))
    client.force_login(User.objects.get(pk=keeper.pk))
    page = reverse("admin:packages_package_change", args=[version.package_id])
    assert "Switch off" not in client.get(page).content.decode()
    client.post(reverse("admin:package_disable", args=[version.package_id]))
    assert Package.objects.get().disabled_at is None
    keeper.user_permissions.clear()
    client.force_login(User.objects.get(pk=keeper.pk))
    assert client.get(page).status_code == 403
    off = reverse("admin:package_disable", args=[version.package_id])
    assert client.post(off).status_code == 403
