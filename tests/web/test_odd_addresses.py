"""Whatever stands in the address or the form of a member's page, it is answered and never fails."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

ODD = (
    *(
        "a\x00b",
        "1" * 400,
        "-1",
        "0",
        "²",
        "٣",
        "\ufffd",
        "",
        " ",
        "x" * 5_000,
        "%",
        "'\"",
        "../..",
    ),
)


@pytest.fixture
def client(db: Any) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(make_member("mara"))
    return client


@pytest.fixture
def artifact(client: Client) -> Any:
    from apps.accounts.models import User
    from apps.artifacts.models import Artifact

    mara = User.objects.get(username="mara")
    agent = make_agent(mara)
    run = claimed_run(make_room(mara, agent), agent, mara)
    crossed(run, "create_artifact", {"title": "x", "kind": "svg", "body": "<svg/>"})
    return Artifact.objects.get()


@pytest.mark.parametrize("odd", ODD)
def test_pages_take_any_query(client: Client, artifact: Any, odd: str) -> None:
    room = artifact.room_id
    version = f"/artifacts/{artifact.pk}/versions/1"
    for path in ("/rooms/", f"/rooms/{room}/", "/approvals/", "/approvals/list/",
                 f"{version}/preview", f"{version}/download", "/sign-in/"):  # fmt: skip
        for name in ("page", "show", "theme", "next", "odd"):
            answer = client.get(path, {name: odd, "show": odd if name == "show" else "decided"})
            assert answer.status_code < 500, (path, name)


@pytest.mark.parametrize("number", ["0", "2", "9" * 9, "9" * 19, "9" * 400])
def test_a_version_that_no_column_could_number_is_not_there(
    client: Client, artifact: Any, number: str
) -> None:
    for page in ("preview", "download"):
        answer = client.get(f"/artifacts/{artifact.pk}/versions/{number}/{page}")
        assert answer.status_code == 404
    assert client.get(f"/artifacts/{uuid.uuid4()}/versions/{number}/preview").status_code == 404


@pytest.mark.parametrize("odd", ODD)
def test_forms_take_any_text(client: Client, odd: str) -> None:
    assert client.post("/rooms/new/", {"name": odd}).status_code < 500
    stranger = Client(raise_request_exception=False)
    for fields in (
        {"username": odd, "password": "x"},
        {"username": "mara", "password": odd},
        {"username": "mara", "password": "a long enough secret", "next": odd},
    ):
        assert stranger.post("/sign-in/", fields).status_code < 500
        assert stranger.post("/admin/login/", fields).status_code < 500
