from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission as PermissionRow
from django.utils import timezone

from apps.accounts.models import User
from apps.proposals import services
from apps.proposals.models import PackageProposal, ProposalTest
from tests.factories import packages as made


@pytest.fixture
def author(db: None) -> User:
    return User.objects.create_user("mara", display_name="Mara Lindqvist")


@pytest.fixture
def other(db: None) -> User:
    return User.objects.create_user("dev", display_name="Dev Patel")


@pytest.fixture
def make_reviewer(db: None) -> Callable[..., User]:
    def make(username: str, **fields: Any) -> User:
        user = User.objects.create_user(username, is_staff=True, **fields)
        user.user_permissions.set(
            PermissionRow.objects.filter(
                codename__in=["review_packageproposal", "view_packageproposal", "manage_package"]
            )
        )
        return User.objects.get(pk=user.pk)

    return make


@pytest.fixture
def reviewer(make_reviewer: Callable[..., User]) -> User:
    return make_reviewer("ines", display_name="Ines Moreau")


@pytest.fixture
def draft(author: User) -> PackageProposal:
    return services.create_proposal(
        author=author, manifest=made.manifest(), files=made.tree(), note="First one."
    )


def give_receipt(proposal: PackageProposal, state: str = "passed", **fields: Any) -> ProposalTest:
    """Write down a finished test of a proposal as it is now."""
    return ProposalTest.objects.create(
        proposal=proposal,
        artifact_hash=proposal.artifact_hash,
        contract_digest=proposal.contract_digest,
        requested_by=proposal.author,
        correlation_id="",
        state=state,
        **{
            "ran": 3,
            "runtime": "Python 3.11.2",
            "milliseconds": 420,
            "output": "Ran 3 tests in 0.1s\n\nOK\n",
            "started_at": timezone.now(),
            "finished_at": timezone.now(),
            **fields,
        },
    )


@pytest.fixture
def tested(draft: PackageProposal) -> PackageProposal:
    give_receipt(draft)
    return draft


@pytest.fixture
def submitted(tested: PackageProposal, author: User) -> PackageProposal:
    return services.submit_proposal(proposal_id=tested.pk, author=author)
