"""What happens when two people act on one proposal at the same moment?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.core.errors import Refusal
from apps.packages.models import Package, PackageVersion
from apps.proposals import services
from apps.proposals.models import PackageProposal
from tests.factories import packages as made
from tests.proposals.conftest import give_receipt

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*verbs: Callable[[], Any]) -> list[Any]:
    """Run verbs in threads that start together; return each one's value or refusal."""
    gate = threading.Barrier(len(verbs))
    found: list[Any] = [None] * len(verbs)

    def run(place: int, verb: Callable[[], Any]) -> None:
        try:
            gate.wait(5)
            found[place] = verb()
        except Refusal as refusal:
            found[place] = refusal
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place, verb)) for place, verb in enumerate(verbs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def refusals(found: list[Any]) -> list[str]:
    return sorted(one.code for one in found if isinstance(one, Refusal))


def test_two_approvals_admit_once(
    submitted: PackageProposal, make_reviewer: Callable[..., User]
) -> None:
    first, second = make_reviewer("first"), make_reviewer("second")
    found = at_once(
        lambda: services.approve_proposal(proposal_id=submitted.pk, reviewer=first),
        lambda: services.approve_proposal(proposal_id=submitted.pk, reviewer=second),
    )
    assert refusals(found) == ["not_reviewable"]
    assert PackageVersion.objects.count() == 1


def test_approval_and_withdrawal_never_both_hold(
    submitted: PackageProposal, reviewer: User, author: User
) -> None:
    found = at_once(
        lambda: services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer),
        lambda: services.withdraw_proposal(proposal_id=submitted.pk, author=author),
    )
    assert len(refusals(found)) == 1
    submitted.refresh_from_db()
    assert PackageVersion.objects.exists() is (submitted.state == "approved")


def test_submitting_and_replacing_never_submit_untested_bytes(
    tested: PackageProposal, author: User
) -> None:
    at_once(
        lambda: services.submit_proposal(proposal_id=tested.pk, author=author),
        lambda: services.replace_draft(
            proposal_id=tested.pk, author=author, revision=1, files=made.tree(weather_py=b"x = 1\n")
        ),
    )
    tested.refresh_from_db()
    assert (tested.state, tested.revision) in [("submitted", 1), ("draft", 2)]


def test_two_packages_never_take_one_tool_name(author: User, other: User, reviewer: User) -> None:
    proposals = []
    for writer, name in ((author, "one"), (other, "two")):
        proposal = services.create_proposal(
            author=writer, manifest=made.manifest(name), files=made.tree(name)
        )
        give_receipt(proposal)
        proposals.append(services.submit_proposal(proposal_id=proposal.pk, author=writer))
    found = at_once(
        *(
            lambda proposal=proposal: services.approve_proposal(
                proposal_id=proposal.pk, reviewer=reviewer
            )
            for proposal in proposals
        )
    )
    assert refusals(found) == ["tool_name_taken"]
    assert Package.objects.count() == 1


def test_one_author_creates_one_open_proposal_of_a_version(author: User) -> None:
    def create() -> Any:
        return services.create_proposal(author=author, manifest=made.manifest(), files=made.tree())

    found = at_once(create, create, create)
    assert refusals(found) == ["proposal_open", "proposal_open"]


def test_two_tests_asked_at_once_are_one(draft: PackageProposal, author: User) -> None:
    found = at_once(
        *(lambda: services.request_test(proposal_id=draft.pk, member=author) for _ in range(3))
    )
    assert len({one.pk for one in found}) == 1
