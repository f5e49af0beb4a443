"""Artifacts are read by their owner and by everyone in their room."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.artifacts.models import Artifact
from apps.artifacts.services import Provenance, create_artifact, update_artifact
from apps.rooms.models import Room
from apps.rooms.services import remove_participant
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member, make_room

URL = "/api/v1/artifacts"


def provenance() -> Provenance:
    import uuid

    return Provenance(
        run_id=uuid.uuid4(), call_id=uuid.uuid4(), agent_name="Scribe", agent_slug="scribe"
    )


@pytest.fixture
def mara(db: Any) -> User:
    return make_member()


@pytest.fixture
def tomas(db: Any) -> User:
    return make_member()


@pytest.fixture
def room(mara: User, tomas: User) -> Room:
    return make_room(mara, None, tomas)


@pytest.fixture
def artifact(tomas: User, room: Room) -> Artifact:
    version = create_artifact(
        owner=tomas,
        room_id=room.pk,
        title="Plan",
        kind="code",
        language="python",
        body="print('ü')\n",
        provenance=provenance(),
    )
    update_artifact(
        member=tomas,
        room_id=room.pk,
        artifact_id=version.artifact_id,
        expected_version=1,
        body="print(2)\n",
        title="Plan B",
        provenance=provenance(),
    )
    return Artifact.objects.get()


@pytest.fixture
def as_mara(mara: User) -> APIClient:
    return client_of(mara)


def test_an_artifact_is_shown_without_its_text(as_mara: APIClient, artifact: Artifact) -> None:
    body = as_mara.get(f"{URL}/{artifact.pk}").json()
    assert (body["title"], body["kind"], body["language"]) == ("Plan B", "code", "python")
    assert body["head"] == 2
    assert "body" not in body
    assert as_mara.get(URL).json()["results"] == [body]


def test_each_version_keeps_its_text_and_provenance(as_mara: APIClient, artifact: Artifact) -> None:
    rows = as_mara.get(f"{URL}/{artifact.pk}/versions").json()["results"]
    assert [(row["number"], row["title"]) for row in rows] == [(2, "Plan B"), (1, "Plan")]
    assert "body" not in rows[0]
    first = as_mara.get(f"{URL}/{artifact.pk}/versions/1").json()
    assert first["body"] == "print('ü')\n"
    assert (first["size"], first["characters"]) == (12, 11)
    assert first["agent_name"] == "Scribe"
    assert first["digest"].startswith("sha256:")


@pytest.mark.parametrize("number", ["0", "3", "-1", "x", "01", "99999999999999999999", "1.0"])
def test_a_version_that_is_not_there_is_missing(
    as_mara: APIClient, artifact: Artifact, number: str
) -> None:
    problem(as_mara.get(f"{URL}/{artifact.pk}/versions/{number}"), 404, "not_found")


def test_the_list_narrows_to_a_room(as_mara: APIClient, mara: User, artifact: Artifact) -> None:
    other = make_room(mara)
    assert len(as_mara.get(URL, {"room": str(artifact.room_id)}).json()["results"]) == 1
    assert as_mara.get(URL, {"room": str(other.pk)}).json()["results"] == []
    problem(as_mara.get(URL, {"room": "x"}), 422, "invalid")


def test_an_owner_who_left_the_room_keeps_their_work(
    mara: User, tomas: User, room: Room, artifact: Artifact
) -> None:
    remove_participant(room_id=room.pk, actor=mara, username=tomas.username)
    assert client_of(tomas).get(f"{URL}/{artifact.pk}/versions/1").status_code == 200
    problem(client_of(make_member()).get(f"{URL}/{artifact.pk}"), 404, "not_found")


def test_lists_cost_the_same_for_many_as_for_one(
    mara: User, room: Room, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        create_artifact(
            owner=mara,
            room_id=room.pk,
            title=f"Plan {number}",
            kind="text",
            language="",
            body="x",
            provenance=provenance(),
        )
    client = client_of(mara)
    ident = Artifact.objects.first()
    assert ident is not None
    with django_assert_max_num_queries(2):
        assert len(client.get(URL).json()["results"]) == 5
    with django_assert_max_num_queries(3):
        client.get(f"{URL}/{ident.pk}/versions")
