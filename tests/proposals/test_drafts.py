"""How does a proposal come to be, change, and reach the reviewers?"""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.core.errors import Forbidden, Invalid
from apps.core.models import Blob
from apps.packages.errors import PackageNameTaken, ToolNameTaken, VersionTaken
from apps.packages.names import reserved_names
from apps.proposals import services
from apps.proposals.errors import (
    AlreadyOpen,
    InvalidPackage,
    NoCurrentReceipt,
    NotADraft,
    ProposalNotFound,
    StaleRevision,
    TooManyOpen,
)
from apps.proposals.models import PackageProposal, ProposalTest
from apps.proposals.selectors import current_receipt, draft_tree
from tests.factories import packages as made
from tests.proposals.conftest import give_receipt

pytestmark = pytest.mark.django_db


def actions() -> list[str]:
    return list(AuditRow.objects.order_by("id").values_list("action", flat=True))


def test_a_draft_keeps_its_exact_files_under_two_digests(draft: PackageProposal) -> None:
    assert draft.ref == "weather@1.0.0"
    assert draft.state == "draft"
    assert draft.revision == 1
    assert draft_tree(draft) == made.tree()
    assert draft.artifact_hash.startswith("sha256:")
    assert draft.contract_digest.startswith("sha256:")
    assert actions() == ["proposal.created"]


def test_equal_files_share_one_stored_body(draft: PackageProposal, author: User) -> None:
    before = Blob.objects.count()
    services.create_proposal(
        author=author,
        manifest=made.manifest("other", "1.0.0", made.definition("other.convert")),
        files=made.tree("other"),
    )
    # Only package.json differs.
    assert Blob.objects.count() == before + 1


@pytest.mark.parametrize(
    ("manifest", "files", "field", "rule"),
    [
        ({}, made.tree(), "manifest.name", "required"),
        (made.manifest(posture="open"), made.tree(), "manifest.posture", "unsupported"),
        (made.manifest(colour="red"), made.tree(), "manifest.colour", "unknown_field"),
        (
            made.manifest("weather", "1.0.0", made.definition(pauses=True)),
            made.tree(),
            "manifest.tools[0].hands_link_to",
            "required",
        ),
        (made.manifest(), {"weather.py": b""}, "files.package.json", "required"),
        (made.manifest(), made.tree() | {"../x.py": b""}, "files.../x.py", "traversal"),
        (made.manifest(), made.tree(weather_py=None), "manifest.tools[0].entry", "entry_missing"),
        (made.manifest(), made.tree() | {"big.txt": b"x" * 200_000}, "files.big.txt", "file_size"),
    ],
)
def test_a_bad_package_is_refused_with_the_place_and_the_rule(
    author: User, manifest: dict[str, Any], files: dict[str, bytes], field: str, rule: str
) -> None:
    with pytest.raises(InvalidPackage) as refused:
        services.create_proposal(author=author, manifest=manifest, files=files)
    errors = refused.value.extra["errors"]
    assert (field, rule) in [(error["field"], error["rule"]) for error in errors]
    assert not PackageProposal.objects.exists()


def test_a_manifest_that_is_no_object_is_refused(author: User) -> None:
    with pytest.raises(InvalidPackage):
        services.create_proposal(author=author, manifest=["x"], files={})


def test_one_open_proposal_of_a_version_per_author(draft: PackageProposal, author: User) -> None:
    with pytest.raises(AlreadyOpen):
        services.create_proposal(author=author, manifest=made.manifest(), files=made.tree())


def test_after_withdrawing_the_same_version_may_be_proposed_again(
    draft: PackageProposal, author: User
) -> None:
    services.withdraw_proposal(proposal_id=draft.pk, author=author)
    services.create_proposal(author=author, manifest=made.manifest(), files=made.tree())
    assert actions() == ["proposal.created", "proposal.withdrawn", "proposal.created"]


def test_open_proposals_are_bounded(
    draft: PackageProposal, author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.proposals.services.drafts.MAX_OPEN", 1)
    with pytest.raises(TooManyOpen):
        services.create_proposal(
            author=author, manifest=made.manifest(version="1.1.0"), files=made.tree(version="1.1.0")
        )


def test_an_account_that_is_switched_off_proposes_nothing(author: User) -> None:
    User.objects.filter(pk=author.pk).update(is_active=False)
    with pytest.raises(Forbidden):
        services.create_proposal(author=author, manifest=made.manifest(), files=made.tree())


def test_changing_one_byte_clears_the_test_evidence(tested: PackageProposal, author: User) -> None:
    assert current_receipt(tested) is not None
    changed = services.replace_draft(
        proposal_id=tested.pk,
        author=author,
        revision=1,
        files=made.tree(weather_py=made.MODULE + b"#"),
    )
    assert changed.revision == 2
    assert current_receipt(changed) is None


def test_changing_the_manifest_alone_clears_the_test_evidence(
    tested: PackageProposal, author: User
) -> None:
    changed = services.replace_draft(
        proposal_id=tested.pk,
        author=author,
        revision=1,
        manifest=made.manifest(description="New words."),
    )
    assert changed.revision == 2
    assert changed.artifact_hash == tested.artifact_hash
    assert current_receipt(changed) is None
    assert draft_tree(changed) == made.tree()


def test_putting_the_same_bytes_back_brings_the_receipt_back(
    tested: PackageProposal, author: User
) -> None:
    services.replace_draft(
        proposal_id=tested.pk,
        author=author,
        revision=1,
        files=made.tree(weather_py=made.MODULE + b"#"),
    )
    back = services.replace_draft(
        proposal_id=tested.pk, author=author, revision=2, files=made.tree()
    )
    assert back.revision == 3
    assert current_receipt(back) is not None


def test_replacing_with_the_same_bytes_changes_nothing(
    tested: PackageProposal, author: User
) -> None:
    same = services.replace_draft(
        proposal_id=tested.pk, author=author, revision=1, files=made.tree()
    )
    assert same.revision == 1
    assert current_receipt(same) is not None


def test_a_stale_revision_is_refused_with_the_present_one(
    draft: PackageProposal, author: User
) -> None:
    with pytest.raises(StaleRevision) as refused:
        services.replace_draft(proposal_id=draft.pk, author=author, revision=7, files=made.tree())
    assert refused.value.extra == {"revision": 1}


def test_a_refused_replacement_leaves_the_draft_as_it_was(
    draft: PackageProposal, author: User
) -> None:
    with pytest.raises(InvalidPackage):
        services.replace_draft(
            proposal_id=draft.pk, author=author, revision=1, files={"weather.py": b"x"}
        )
    draft.refresh_from_db()
    assert draft.revision == 1
    assert draft_tree(draft) == made.tree()


def test_a_change_ends_the_open_test(draft: PackageProposal, author: User) -> None:
    test = services.request_test(proposal_id=draft.pk, member=author)
    services.replace_draft(
        proposal_id=draft.pk, author=author, revision=1, files=made.tree(weather_py=b"x = 1\n")
    )
    test.refresh_from_db()
    assert test.state == ProposalTest.State.ERROR
    assert "changed before" in test.explanation
    # A new one may be asked for at once.
    again = services.request_test(proposal_id=draft.pk, member=author)
    assert again.pk != test.pk


def test_a_foreign_draft_looks_missing(draft: PackageProposal, other: User) -> None:
    for verb in (
        lambda: services.replace_draft(proposal_id=draft.pk, author=other, revision=1),
        lambda: services.withdraw_proposal(proposal_id=draft.pk, author=other),
        lambda: services.submit_proposal(proposal_id=draft.pk, author=other),
        lambda: services.request_test(proposal_id=draft.pk, member=other),
    ):
        with pytest.raises(ProposalNotFound):
            verb()


def test_submitting_needs_a_passed_test(draft: PackageProposal, author: User) -> None:
    with pytest.raises(NoCurrentReceipt):
        services.submit_proposal(proposal_id=draft.pk, author=author)
    give_receipt(draft, "failed", failed=1)
    with pytest.raises(NoCurrentReceipt):
        services.submit_proposal(proposal_id=draft.pk, author=author)


def test_the_newest_run_of_the_same_bytes_decides(tested: PackageProposal) -> None:
    give_receipt(tested, "failed", failed=1)
    assert current_receipt(tested) is None
    # That no sandbox was there proves nothing, either way.
    give_receipt(tested, "passed")
    give_receipt(tested, "error")
    assert current_receipt(tested) is not None


def test_a_submitted_proposal_stays_as_it_is(submitted: PackageProposal, author: User) -> None:
    assert submitted.submitted_at is not None
    with pytest.raises(NotADraft):
        services.replace_draft(
            proposal_id=submitted.pk, author=author, revision=1, files=made.tree()
        )
    with pytest.raises(NotADraft):
        services.submit_proposal(proposal_id=submitted.pk, author=author)
    services.withdraw_proposal(proposal_id=submitted.pk, author=author)
    with pytest.raises(NotADraft):
        services.withdraw_proposal(proposal_id=submitted.pk, author=author)


def test_a_note_is_bounded(tested: PackageProposal, author: User) -> None:
    with pytest.raises(Invalid):
        services.submit_proposal(proposal_id=tested.pk, author=author, note="x" * 501)


def test_a_package_belongs_to_its_first_author(
    submitted: PackageProposal, reviewer: User, other: User
) -> None:
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    with pytest.raises(PackageNameTaken):
        services.create_proposal(
            author=other, manifest=made.manifest(version="2.0.0"), files=made.tree(version="2.0.0")
        )


def test_an_admitted_version_number_is_never_proposed_again(
    submitted: PackageProposal, reviewer: User, author: User
) -> None:
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    with pytest.raises(VersionTaken):
        services.create_proposal(
            author=author, manifest=made.manifest(), files=made.tree(weather_py=b"x = 1\n")
        )


def test_a_tool_name_of_another_active_package_is_taken(
    submitted: PackageProposal, reviewer: User, other: User
) -> None:
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    with pytest.raises(ToolNameTaken):
        services.create_proposal(
            author=other, manifest=made.manifest("climate"), files=made.tree("climate")
        )


def test_a_built_in_name_is_taken(author: User, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "create_artifact" in reserved_names()
    monkeypatch.setattr("apps.packages.names._sources", [lambda: ["PKG_weather_convert"]])
    with pytest.raises(ToolNameTaken):
        services.create_proposal(author=author, manifest=made.manifest(), files=made.tree())
