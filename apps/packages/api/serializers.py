"""What do answers about packages look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.packages.models import Package, PackageTool, PackageVersion


class ToolSerializer(serializers.ModelSerializer):
    """One admitted tool, under the name that models call it by."""

    class Meta:
        model = PackageTool
        fields = ("name", "definition_id", "collaboration_class", "entry", "definition")


class VersionSerializer(serializers.ModelSerializer):
    """One admitted version."""

    author = PersonSerializer()
    admitted_by = PersonSerializer()
    tools = ToolSerializer(many=True)

    class Meta:
        model = PackageVersion
        fields = (
            "ref",
            "version",
            "format",
            "artifact_hash",
            "contract_digest",
            "author",
            "admitted_by",
            "created_at",
            "tools",
        )


class PackageSerializer(serializers.ModelSerializer):
    """A package in a list, with its active version."""

    author = PersonSerializer()
    active = VersionSerializer(source="active_version", allow_null=True)
    disabled = serializers.SerializerMethodField()

    class Meta:
        model = Package
        fields: tuple[str, ...] = (
            "name",
            "author",
            "active",
            "disabled",
            "disabled_at",
            "created_at",
            "updated_at",
        )

    def get_disabled(self, package: Package) -> bool:
        """Whether the package is switched off."""
        return package.disabled_at is not None


class PackageDetailSerializer(PackageSerializer):
    """A package with all its versions, newest first."""

    versions = VersionSerializer(many=True)

    class Meta(PackageSerializer.Meta):
        fields = (*PackageSerializer.Meta.fields, "versions")
