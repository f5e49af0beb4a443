"""A program with a token takes a version's exact bytes, piece by piece, and nobody else does."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.accounts.tokens import make_token
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.native import NativeFile, keep_files
from apps.artifacts.services import Provenance, create_artifact
from apps.core.api import downloads
from apps.core.models import Blob
from apps.rooms.models import Room
from apps.rooms.services import remove_participant
from kaizen.asgi import application
from tests.factories.asgi import through_server
from tests.factories.clients import client_of, problem, without_correlation
from tests.factories.rooms import make_member, make_room

SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
BYTES = b"PK\x03\x04" + bytes(range(256)) * 12


def provenance() -> Provenance:
    return Provenance(
        run_id=uuid.uuid4(), call_id=uuid.uuid4(), agent_name="Scribe", agent_slug="scribe"
    )


@pytest.fixture
def mara(db: Any) -> User:
    return make_member()


@pytest.fixture
def room(mara: User) -> Room:
    return make_room(mara)


def kept(owner: User, room: Room, content: bytes = BYTES, name: str = "q3/Übersicht.pptx") -> str:
    files = [NativeFile(name, content, SLIDES)]
    kept = keep_files(owner=owner, room_id=room.pk, files=files, provenance=provenance())
    return address(kept[name].version)


def address(version: ArtifactVersion) -> str:
    return f"/api/v1/artifacts/{version.artifact_id}/versions/{version.number}/content"


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PIECE", 1000)


def body(response: Any) -> bytes:
    return bytes(response.getvalue())


@pytest.mark.usefixtures("small_pieces")
def test_a_native_file_is_handed_out_in_its_exact_bytes_and_type(mara: User, room: Room) -> None:
    answer = client_of(mara).get(kept(mara, room))
    assert answer.status_code == 200
    assert body(answer) == BYTES
    assert answer["Content-Type"] == SLIDES
    assert answer["Content-Length"] == str(len(BYTES))
    assert answer["ETag"] == f'"sha256:{hashlib.sha256(BYTES).hexdigest()}"'
    # The folder that a program put it in is nobody's business, and any letters may be in a name.
    assert answer["Content-Disposition"] == "attachment; filename*=utf-8''%C3%9Cbersicht.pptx"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize(
    ("kind", "language", "media_type", "name"),
    [
        ("markdown", "", "text/markdown; charset=utf-8", "Plan v1.md"),
        ("html", "", "text/html; charset=utf-8", "Plan v1.html"),
        ("code", "python", "text/plain; charset=utf-8", "Plan v1.py"),
    ],
)
def test_text_is_handed_out_as_what_it_is(
    mara: User, room: Room, kind: str, language: str, media_type: str, name: str
) -> None:
    version = create_artifact(
        owner=mara, room_id=room.pk, title="Plan", kind=kind, language=language, body="ü\n",
        provenance=provenance(),
    )  # fmt: skip
    answer = client_of(mara).get(address(version))
    assert (body(answer), answer["Content-Type"]) == ("ü\n".encode(), media_type)
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'


@pytest.mark.parametrize("wanted", ["application/pdf", "application/octet-stream", "image/*"])
def test_whatever_type_is_asked_for_the_bytes_are_what_they_are(
    mara: User, room: Room, wanted: str
) -> None:
    answer = client_of(mara).get(kept(mara, room), headers={"accept": wanted})
    assert (answer.status_code, answer["Content-Type"]) == (200, SLIDES)


def test_what_is_foreign_looks_like_what_is_missing(mara: User, room: Room) -> None:
    url = kept(mara, room)
    client = client_of(make_member())
    foreign = client.get(url)
    problem(foreign, 404, "not_found")
    missing = client.get(f"/api/v1/artifacts/{uuid.uuid4()}/versions/1/content")
    assert without_correlation(foreign) == without_correlation(missing)
    problem(client_of(mara).get(url.replace("/versions/1/", "/versions/2/")), 404, "not_found")
    problem(client_of().get(url), 401, "not_authenticated")


def test_who_left_the_room_takes_nothing_any_more(mara: User) -> None:
    tomas = make_member()
    room = make_room(mara, None, tomas)
    url = kept(mara, room)
    client = client_of(tomas)
    assert client.get(url).status_code == 200
    remove_participant(room_id=room.pk, actor=mara, username=tomas.username)
    problem(client.get(url), 404, "not_found")


def test_known_bytes_are_not_sent_again(mara: User, room: Room) -> None:
    client, url = client_of(mara), kept(mara, room)
    known = client.get(url)["ETag"]
    again = client.get(url, headers={"if-none-match": known})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(url, headers={"if-none-match": '"sha256:0"'}).status_code == 200


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=990-2010", 990, 2011),
        ("bytes=3000-", 3000, len(BYTES)),
        ("bytes=-76", len(BYTES) - 76, len(BYTES)),
        ("bytes=10-999999999999", 10, len(BYTES)),
    ],
)
def test_one_range_is_handed_out(mara: User, room: Room, asked: str, start: int, stop: int) -> None:
    answer = client_of(mara).get(kept(mara, room), headers={"range": asked})
    assert (answer.status_code, body(answer)) == (206, BYTES[start:stop])
    assert answer["Content-Range"] == f"bytes {start}-{stop - 1}/{len(BYTES)}"
    assert answer["Content-Length"] == str(stop - start)


@pytest.mark.parametrize("asked", [f"bytes={len(BYTES)}-", "bytes=999999-9999999", "bytes=-0"])
def test_a_range_behind_the_end_cannot_be_met(mara: User, room: Room, asked: str) -> None:
    answer = client_of(mara).get(kept(mara, room), headers={"range": asked})
    assert (answer.status_code, answer.content) == (416, b"")
    assert answer["Content-Range"] == f"bytes */{len(BYTES)}"


@pytest.mark.parametrize(
    "headers",
    [
        {"range": "bytes=5-2"},
        {"range": "bytes=-"},
        {"range": "bytes=0-1,4-5"},
        {"range": "lines=1-2"},
        {"range": "bytes=1-2", "if-range": '"sha256:another"'},
    ],
)
def test_what_is_no_single_range_of_these_bytes_gets_the_whole(
    mara: User, room: Room, headers: dict[str, str]
) -> None:
    answer = client_of(mara).get(kept(mara, room), headers=headers)
    assert (answer.status_code, body(answer)) == (200, BYTES)


def test_a_look_at_the_head_reads_no_body(mara: User, room: Room) -> None:
    client, url = client_of(mara), kept(mara, room)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        answer = client.head(url)
    assert (answer.status_code, answer["Content-Length"]) == (200, str(len(BYTES)))
    ranged = client.head(url, headers={"Range": "bytes=0-1"})
    assert (ranged.status_code, ranged["Content-Length"]) == (200, str(len(BYTES)))
    assert not any('"content"' in one["sql"] or "substring" in one["sql"] for one in asked)


@pytest.mark.usefixtures("small_pieces")
def test_no_query_reads_more_than_a_piece(mara: User, room: Room) -> None:
    client, url = client_of(mara), kept(mara, room)
    with CaptureQueriesContext(connection) as asked:
        assert body(client.get(url)) == BYTES
    bodies = [one["sql"] for one in asked if "substring" in one["sql"]]
    assert len(bodies) == 4
    assert not any('"content"' in one["sql"] for one in asked)
    assert all("FOR 1000)" in sql or "FOR 76)" in sql for sql in bodies)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("small_pieces")
def test_the_server_sends_a_piece_while_the_next_is_not_read_yet(mara: User, room: Room) -> None:
    url = kept(mara, room)
    _, token = make_token(user=mara)
    whole = through_server("GET", url, b"", {"Authorization": f"Bearer {token}"})
    assert (whole.status_code, whole.content) == (200, BYTES)
    # Thrown away after the first piece: the connection breaks, and no reader takes it for whole.
    sent: list[bytes] = []

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body" and message.get("body"):
            sent.append(message["body"])
            await asyncio.to_thread(_throw_away)

    with pytest.raises(downloads.BrokenOff):
        asyncio.run(_asked(url, token, send))
    assert sent == [BYTES[:1000]]


def _throw_away() -> None:
    ArtifactVersion.objects.all().delete()
    Artifact.objects.all().delete()
    Blob.objects.all().delete()
    connection.close()


async def _asked(url: str, token: str, send: Any) -> None:
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        await asyncio.Event().wait()
        raise AssertionError

    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": url,
        "raw_path": url.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("testserver", 80),
    }  # fmt: skip
    await application(scope, receive, send)
