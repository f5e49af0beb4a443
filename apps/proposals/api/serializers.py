"""What do requests and answers about proposals look like?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.core.api.serializers import StrictSerializer, TextField, WholeNumberField
from apps.proposals.models import PackageProposal, ProposalTest

MAX_NOTE = 500


class ManifestField(serializers.JSONField):
    """A manifest as JSON; its own rules are checked by the service, place by place."""


class FilesField(serializers.DictField):
    """Files as text, by path."""

    child = TextField(allow_blank=True)

    def to_internal_value(self, data: Any) -> dict[str, bytes]:
        """Return the bytes of each file."""
        texts: dict[str, str] = super().to_internal_value(data)
        return {path: text.encode() for path, text in texts.items()}


class NewProposalSerializer(StrictSerializer):
    """A new draft, as JSON."""

    manifest = ManifestField()
    files = FilesField()
    note = TextField(required=False, allow_blank=True, max_length=MAX_NOTE, default="")


class ArchiveSerializer(StrictSerializer):
    """A new draft, as one .zip or .tar.gz with kaizen.json beside the files."""

    archive = serializers.FileField(allow_empty_file=True)
    note = TextField(required=False, allow_blank=True, max_length=MAX_NOTE, default="")


class ChangedDraftSerializer(StrictSerializer):
    """What takes the place of a draft's manifest, files or both."""

    revision = WholeNumberField(min_value=1)
    manifest = ManifestField(required=False)
    files = FilesField(required=False)


class SubmitSerializer(StrictSerializer):
    """What the author says to the reviewers."""

    note = TextField(required=False, allow_blank=True, max_length=MAX_NOTE)


class CollaboratorSerializer(StrictSerializer):
    """Who is to work on a draft."""

    username = TextField(max_length=150)


class ProposalQuerySerializer(StrictSerializer):
    """Which proposals to list."""

    state = serializers.ChoiceField(choices=PackageProposal.State.choices, required=False)


class TestSerializer(serializers.ModelSerializer):
    """One run of a draft's own tests. A passed one is the receipt while `current` holds."""

    requested_by = PersonSerializer()
    current = serializers.SerializerMethodField()

    class Meta:
        model = ProposalTest
        fields = (
            "id",
            "state",
            "current",
            "explanation",
            "ran",
            "failed",
            "runtime",
            "milliseconds",
            "output",
            "surface",
            "attempts",
            "artifact_hash",
            "contract_digest",
            "requested_by",
            "queued_at",
            "started_at",
            "finished_at",
        )

    def get_current(self, test: ProposalTest) -> bool:
        """Whether the test is about the proposal as it is now."""
        now = (test.proposal.artifact_hash, test.proposal.contract_digest)
        return (test.artifact_hash, test.contract_digest) == now


class ProposalSerializer(serializers.ModelSerializer):
    """A proposal in a list."""

    author = PersonSerializer()
    reviewer = PersonSerializer(allow_null=True)
    tested = serializers.SerializerMethodField()

    class Meta:
        model = PackageProposal
        fields: tuple[str, ...] = (
            "id",
            "ref",
            "name",
            "version",
            "format",
            "state",
            "revision",
            "note",
            "author",
            "artifact_hash",
            "contract_digest",
            "tested",
            "submitted_at",
            "reviewer",
            "decided_at",
            "decision_reason",
            "created_at",
            "updated_at",
        )

    def get_tested(self, proposal: Any) -> bool:
        """Whether a passed test stands for exactly these bytes and this contract."""
        return bool(proposal.evidence == ProposalTest.State.PASSED)


class FileSerializer(serializers.Serializer):
    """One file of a draft, without its bytes."""

    path = serializers.CharField()
    size = serializers.IntegerField()
    digest = serializers.CharField(source="blob_id")


class DependencySerializer(serializers.Serializer):
    """One package that a package needs, with the hash of its archive."""

    name = serializers.CharField()
    version = serializers.CharField()
    place = serializers.CharField()
    sha512 = serializers.CharField()


class ProposalDetailSerializer(ProposalSerializer):
    """A proposal with its manifest, the names of its files, and what it needs of others."""

    files = FileSerializer(source="listed_files", many=True)
    dependencies = DependencySerializer(source="locked", many=True)

    class Meta(ProposalSerializer.Meta):
        fields = (*ProposalSerializer.Meta.fields, "manifest", "files", "dependencies")
