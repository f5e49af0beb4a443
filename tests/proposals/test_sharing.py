"""Owner, collaborator, reviewer and stranger at a proposal: who may do what, as one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.models import AuditRow
from apps.core.errors import Forbidden
from apps.proposals import services
from apps.proposals.errors import OwnProposal
from apps.proposals.models import PackageProposal
from apps.proposals.services import sharing
from tests.factories import packages as made
from tests.proposals.conftest import give_receipt

JSON = "application/json"
ROLES = ("author", "collaborator", "former", "stranger", "reviewer")


@pytest.fixture
def people(
    author: User, other: User, draft: PackageProposal, make_reviewer: Callable[..., User]
) -> dict[str, User]:
    former = User.objects.create_user("former")
    for guest in (other, former):
        services.share_proposal(proposal_id=draft.pk, sharer=author, username=guest.username)
    services.unshare_proposal(proposal_id=draft.pk, sharer=author, username="former")
    return {
        "author": author,
        "collaborator": other,
        "former": former,
        "stranger": User.objects.create_user("stranger"),
        "reviewer": make_reviewer("ines"),
    }


def ask(member: User, method: str, path: str, body: Any = None) -> Any:
    client = Client()
    client.force_login(member)
    return client.generic(method, f"/api/v1/proposals{path}", body or "", content_type=JSON)


def change(revision: int = 1) -> str:
    files = {path: raw.decode() for path, raw in made.tree().items()}
    return json.dumps({"revision": revision, "files": {**files, "more.txt": "more"}})


# The answer to author, collaborator, former collaborator, stranger and reviewer.
ON_A_DRAFT = {
    "read": ("GET", "", None, (200, 200, 404, 404, 404)),
    "see who works on it": ("GET", "/shares", None, (200, 200, 404, 404, 404)),
    "see its tests": ("GET", "/tests", None, (200, 200, 404, 404, 404)),
    "change": ("PUT", "", change(), (200, 200, 404, 404, 404)),
    "test": ("POST", "/test", None, (202, 202, 404, 404, 404)),
    "submit": ("POST", "/submit", "{}", (200, 403, 404, 404, 404)),
    "withdraw": ("DELETE", "", None, (204, 403, 404, 404, 404)),
    "share": ("POST", "/shares", '{"username": "stranger"}', (201, 403, 404, 404, 404)),
    "take back": ("DELETE", "/shares/dev", None, (204, 403, 404, 404, 404)),
}
ON_A_SUBMITTED_ONE = {
    "read": ("GET", "", None, (200, 200, 404, 404, 200)),
    "see who works on it": ("GET", "/shares", None, (200, 200, 404, 404, 200)),
    "change": ("PUT", "", change(), (409, 409, 404, 404, 404)),
    "test": ("POST", "/test", None, (202, 202, 404, 404, 202)),
    "submit": ("POST", "/submit", "{}", (409, 403, 404, 404, 404)),
    "withdraw": ("DELETE", "", None, (204, 403, 404, 404, 404)),
    "share": ("POST", "/shares", '{"username": "stranger"}', (409, 403, 404, 404, 404)),
    "take back": ("DELETE", "/shares/dev", None, (204, 403, 404, 404, 404)),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", ON_A_DRAFT)
def test_on_a_draft(people: dict[str, User], draft: PackageProposal, verb: str, role: str) -> None:
    method, path, body, answers = ON_A_DRAFT[verb]
    give_receipt(draft)
    answer = ask(people[role], method, f"/{draft.pk}{path}", body)
    assert answer.status_code == answers[ROLES.index(role)], answer.content


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", ON_A_SUBMITTED_ONE)
def test_on_a_submitted_one(
    people: dict[str, User], draft: PackageProposal, verb: str, role: str
) -> None:
    method, path, body, answers = ON_A_SUBMITTED_ONE[verb]
    give_receipt(draft)
    services.submit_proposal(proposal_id=draft.pk, author=people["author"])
    answer = ask(people[role], method, f"/{draft.pk}{path}", body)
    assert answer.status_code == answers[ROLES.index(role)], answer.content


def test_a_foreign_proposal_looks_like_a_missing_one(
    people: dict[str, User], draft: PackageProposal
) -> None:
    missing = "00000000-0000-4000-8000-000000000000"
    for method, path, body, _ in ON_A_DRAFT.values():
        answers = [
            ask(people["stranger"], method, f"/{ident}{path}", body).json()
            for ident in (draft.pk, missing)
        ]
        for answer in answers:
            answer.pop("correlation_id")
        assert answers[0] == answers[1]


def test_whoever_changed_a_draft_never_decides_on_it(
    author: User, reviewer: User, make_reviewer: Callable[..., User], draft: PackageProposal
) -> None:
    services.share_proposal(proposal_id=draft.pk, sharer=author, username=reviewer.username)
    files = {**made.tree(), "more.txt": b"more"}
    services.replace_draft(proposal_id=draft.pk, author=reviewer, revision=1, files=files)
    services.unshare_proposal(proposal_id=draft.pk, sharer=author, username=reviewer.username)
    draft.refresh_from_db()
    give_receipt(draft)
    services.submit_proposal(proposal_id=draft.pk, author=author)
    with pytest.raises(OwnProposal):
        services.approve_proposal(proposal_id=draft.pk, reviewer=reviewer)
    second = make_reviewer("second")
    services.reject_proposal(proposal_id=draft.pk, reviewer=second, reason="Not yet.")


def test_to_be_named_a_collaborator_takes_no_reviewer_off(
    author: User, reviewer: User, draft: PackageProposal
) -> None:
    services.share_proposal(proposal_id=draft.pk, sharer=author, username=reviewer.username)
    give_receipt(draft)
    services.submit_proposal(proposal_id=draft.pk, author=author)
    services.reject_proposal(proposal_id=draft.pk, reviewer=reviewer, reason="Not yet.")


def test_a_change_by_a_collaborator_stays_the_authors_proposal(
    people: dict[str, User], draft: PackageProposal
) -> None:
    answer = ask(people["collaborator"], "PUT", f"/{draft.pk}", change())
    assert (answer.json()["author"]["username"], answer.json()["revision"]) == ("mara", 2)
    row = AuditRow.objects.get(action="proposal.changed")
    assert row.actor == people["collaborator"].key


def test_shares_are_in_the_audit_trail(people: dict[str, User], draft: PackageProposal) -> None:
    rows = AuditRow.objects.filter(action__in=["proposal.shared", "proposal.unshared"])
    told = [(row.action, row.actor, row.detail["member"]) for row in rows.order_by("pk")]
    mara, dev, former = (people[role].key for role in ("author", "collaborator", "former"))
    assert told == [
        ("proposal.shared", mara, dev),
        ("proposal.shared", mara, former),
        ("proposal.unshared", mara, former),
    ]


def test_a_draft_has_so_many_collaborators(
    author: User, other: User, draft: PackageProposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "MAX_COLLABORATORS", 1)
    for _ in range(2):
        services.share_proposal(proposal_id=draft.pk, sharer=author, username="dev")
    User.objects.create_user("third")
    answer = ask(author, "POST", f"/{draft.pk}/shares", '{"username": "third"}')
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_collaborators")


@pytest.mark.parametrize(("username", "status"), [("nobody", 404), ("gone", 404), ("mara", 409)])
def test_a_share_names_an_active_other_member(
    author: User, draft: PackageProposal, username: str, status: int
) -> None:
    User.objects.create_user("gone", is_active=False)
    answer = ask(author, "POST", f"/{draft.pk}/shares", f'{{"username": "{username}"}}')
    assert (answer.status_code, answer.json()["field"]) == (status, "username")


def test_an_account_that_is_switched_off_works_on_nothing(
    people: dict[str, User], draft: PackageProposal
) -> None:
    guest = people["collaborator"]
    User.objects.filter(pk=guest.pk).update(is_active=False)
    guest.refresh_from_db()
    assert not may(guest, Permission.PROPOSAL_WORK, draft)
    with pytest.raises(Exception, match="no such proposal"):
        services.replace_draft(proposal_id=draft.pk, author=guest, revision=1, files=made.tree())
    assert not PackageProposal.objects.visible_to(guest).exists()
    assert ask(people["author"], "DELETE", f"/{draft.pk}/shares/dev").status_code == 204


def test_the_list_of_proposals_costs_the_same_however_many_are_shared(
    author: User, other: User
) -> None:
    client = Client()
    client.force_login(other)
    costs = []
    for number in range(6):
        version = f"1.0.{number}"
        draft = services.create_proposal(
            author=author, manifest=made.manifest(version=version), files=made.tree(version=version)
        )
        services.share_proposal(proposal_id=draft.pk, sharer=author, username="dev")
        with CaptureQueriesContext(connection) as asked:
            found = client.get("/api/v1/proposals").json()["results"]
        assert len(found) == number + 1
        costs.append(len(asked))
    assert len(set(costs)) == 1


def test_the_author_alone_shares(people: dict[str, User], draft: PackageProposal) -> None:
    with pytest.raises(Forbidden, match="who works on it"):
        services.share_proposal(
            proposal_id=draft.pk, sharer=people["collaborator"], username="stranger"
        )
