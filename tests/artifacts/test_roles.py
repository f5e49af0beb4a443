"""Owner, collaborator, reader, people of the room and strangers: who may do what, as one table."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.accounts.permissions import Permission, take
from apps.artifacts import roles, selectors
from apps.artifacts.errors import ArtifactNotFound
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.services import Provenance, create_artifact, update_artifact
from apps.audit.models import AuditRow
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import close_room, remove_participant
from tests.factories.rooms import make_member, make_room

pytestmark = pytest.mark.django_db

JSON = "application/json"
ROLES = ("owner", "collaborator", "reader", "room", "former", "stranger")


def provenance() -> Provenance:
    return Provenance(
        run_id=uuid.uuid4(), call_id=uuid.uuid4(), agent_name="Scribe", agent_slug="scribe"
    )


@pytest.fixture
def people(db: None) -> dict[str, User]:
    return {role: make_member(role) for role in ROLES}


@pytest.fixture
def room(people: dict[str, User]) -> Room:
    return make_room(people["owner"], None, people["room"])


@pytest.fixture
def artifact(people: dict[str, User], room: Room) -> Artifact:
    owner = people["owner"]
    made = create_artifact(
        owner=owner, room_id=room.pk, title="Plan", kind="markdown", language="", body="One",
        provenance=provenance(),
    ).artifact  # fmt: skip
    for guest, role in (
        ("former", "collaborator"), ("reader", "reader"), ("collaborator", "collaborator"),
    ):  # fmt: skip
        roles.share_artifact(artifact_id=made.pk, sharer=owner, username=guest, role=role)
    roles.unshare_artifact(artifact_id=made.pk, sharer=owner, username="former")
    return made


def ask(member: User, method: str, path: str, body: Any = None) -> Any:
    client = Client()
    client.force_login(member)
    raw = "" if body is None else json.dumps(body)
    return client.generic(method, f"/api/v1/artifacts{path}", raw, content_type=JSON)


NEW = {"expected_version": 1, "body": "Two", "title": "Plan B"}
# The answer to owner, collaborator, reader, people of the room, former collaborator and stranger.
VERBS = {
    "read": ("GET", "", None, (200, 200, 200, 200, 404, 404)),
    "list versions": ("GET", "/versions", None, (200, 200, 200, 200, 404, 404)),
    "read a version": ("GET", "/versions/1", None, (200, 200, 200, 200, 404, 404)),
    "download": ("GET", "/versions/1/content", None, (200, 200, 200, 200, 404, 404)),
    "write a version": ("POST", "/versions", NEW, (201, 201, 403, 403, 404, 404)),
    "see shares": ("GET", "/shares", None, (200, 200, 403, 403, 404, 404)),
    "share": ("POST", "/shares", {"username": "stranger"}, (201, 403, 403, 403, 404, 404)),
    "take back": ("DELETE", "/shares/reader", None, (204, 403, 403, 403, 404, 404)),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", VERBS)
def test_who_may(people: dict[str, User], artifact: Artifact, verb: str, role: str) -> None:
    method, path, body, answers = VERBS[verb]
    answer = ask(people[role], method, f"/{artifact.pk}{path}", body)
    assert answer.status_code == answers[ROLES.index(role)], answer.content


def test_a_foreign_artifact_looks_like_a_missing_one(
    people: dict[str, User], artifact: Artifact
) -> None:
    for method, path, body, _ in VERBS.values():
        answers = [
            ask(people["stranger"], method, f"/{ident}{path}", body).json()
            for ident in (artifact.pk, uuid.uuid4())
        ]
        for answer in answers:
            answer.pop("correlation_id")
        assert answers[0] == answers[1]


@pytest.mark.parametrize("role", ["collaborator", "reader"])
def test_a_share_widens_nothing_for_an_agent(
    people: dict[str, User], artifact: Artifact, room: Room, role: str
) -> None:
    member = people[role]
    with pytest.raises(ArtifactNotFound):
        selectors.read_page(artifact_id=artifact.pk, user=member)
    with pytest.raises(ArtifactNotFound):
        selectors.visible_version(artifact_id=artifact.pk, number=None, user=member)
    assert artifact not in selectors.artifacts_for(member)
    with pytest.raises(ArtifactNotFound):
        update_artifact(
            member=member, room_id=room.pk, artifact_id=artifact.pk, expected_version=1, body="x",
            title=None, provenance=provenance(),
        )  # fmt: skip


def test_a_person_writes_on_top_of_what_they_read(
    people: dict[str, User], artifact: Artifact
) -> None:
    written = ask(people["collaborator"], "POST", f"/{artifact.pk}/versions", NEW).json()
    assert (written["number"], written["title"], written["call"]) == (2, "Plan B", None)
    stale = ask(people["owner"], "POST", f"/{artifact.pk}/versions", NEW)
    assert (stale.status_code, stale.json()["field"]) == (409, "expected_version")
    event = RoomEvent.objects.filter(kind="artifact.saved").latest("position")
    assert event.actor == people["collaborator"].key
    assert (event.data["by"]["agent"], event.data["by"]["member"]["username"]) == (
        "", "collaborator",
    )  # fmt: skip
    row = AuditRow.objects.get(action="artifact.updated")
    assert row.actor == people["collaborator"].key
    artifact.refresh_from_db()
    assert artifact.owner == people["owner"]


def test_nothing_is_written_where_the_room_or_its_owner_has_gone(
    people: dict[str, User], artifact: Artifact, room: Room
) -> None:
    for owner_leaves in (False, True):
        if owner_leaves:
            take(people["owner"], Permission.ROOM_TAKE_PART, room)
            status = 403
        else:
            close_room(room_id=room.pk, actor=people["owner"])
            status = 409
        answer = ask(people["collaborator"], "POST", f"/{artifact.pk}/versions", NEW)
        assert answer.status_code == status, answer.content
        Room.objects.filter(pk=room.pk).update(closed_at=None)
    assert ArtifactVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({**NEW, "body": "x" * 100_001}, 422),
        ({**NEW, "title": "a.docx"}, 422),
        ({**NEW, "expected_version": 0}, 422),
        ({"body": "x"}, 422),
        ({**NEW, "more": 1}, 422),
    ],
)
def test_a_version_that_breaks_a_rule_is_refused(
    people: dict[str, User], artifact: Artifact, body: Any, status: int
) -> None:
    answer = ask(people["owner"], "POST", f"/{artifact.pk}/versions", body)
    assert answer.status_code == status, answer.content


def test_shares_are_listed_with_their_roles_and_change(
    people: dict[str, User], artifact: Artifact
) -> None:
    def listed() -> dict[str, str]:
        rows = ask(people["owner"], "GET", f"/{artifact.pk}/shares").json()["results"]
        return {row["username"]: row["role"] for row in rows}

    assert listed() == {"collaborator": "collaborator", "reader": "reader"}
    for username, role in (("reader", "collaborator"), ("collaborator", "reader")):
        body = {"username": username, "role": role}
        assert ask(people["owner"], "POST", f"/{artifact.pk}/shares", body).status_code == 201
    assert listed() == {"collaborator": "reader", "reader": "collaborator"}
    answer = ask(people["collaborator"], "POST", f"/{artifact.pk}/versions", NEW)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"username": "nobody"}, 404, "username"),
        ({"username": "owner"}, 409, "username"),
        ({"username": "stranger", "role": "owner"}, 422, "role"),
    ],
)
def test_a_share_names_an_active_other_member(
    people: dict[str, User], artifact: Artifact, body: Any, status: int, field: str
) -> None:
    answer = ask(people["owner"], "POST", f"/{artifact.pk}/shares", body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_shares_are_bounded_and_in_the_audit_trail(
    people: dict[str, User], artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "MAX_SHARES", 2)
    answer = ask(people["owner"], "POST", f"/{artifact.pk}/shares", {"username": "stranger"})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_shares")
    shared = AuditRow.objects.filter(action="artifact.shared").order_by("pk")
    assert [row.detail["role"] for row in shared] == ["collaborator", "reader", "collaborator"]
    assert AuditRow.objects.get(action="artifact.unshared").detail == {
        "member": people["former"].key
    }


def test_an_account_that_is_switched_off_reads_nothing(
    people: dict[str, User], artifact: Artifact
) -> None:
    guest = people["reader"]
    guest.is_active = False
    assert not Artifact.objects.readable_by(guest).exists()


def test_whoever_leaves_the_room_keeps_what_was_shared_with_them(
    people: dict[str, User], artifact: Artifact, room: Room
) -> None:
    owner, guest = people["owner"], people["room"]
    roles.share_artifact(artifact_id=artifact.pk, sharer=owner, username="room")
    remove_participant(room_id=room.pk, actor=owner, username="room")
    assert ask(guest, "GET", f"/{artifact.pk}").status_code == 200
    roles.unshare_artifact(artifact_id=artifact.pk, sharer=owner, username="room")
    assert ask(guest, "GET", f"/{artifact.pk}").status_code == 404


def test_the_list_costs_the_same_however_many_are_shared(
    people: dict[str, User], room: Room, artifact: Artifact
) -> None:
    client = Client()
    client.force_login(people["reader"])
    costs = []
    for number in range(4):
        made = create_artifact(
            owner=people["owner"], room_id=room.pk, title=f"More {number}", kind="text",
            language="", body="x", provenance=provenance(),
        ).artifact  # fmt: skip
        roles.share_artifact(artifact_id=made.pk, sharer=people["owner"], username="reader")
        with CaptureQueriesContext(connection) as asked:
            found = client.get("/api/v1/artifacts").json()["results"]
        assert len(found) == number + 2
        costs.append(len(asked))
    assert len(set(costs)) == 1
