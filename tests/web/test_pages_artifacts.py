"""What models wrote is shown in pages that may run nothing and reach nothing."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.artifacts.models import ArtifactVersion
from apps.artifacts.services import Provenance, create_artifact, update_artifact
from apps.rooms.models import Room
from apps.rooms.services import remove_participant
from apps.web.rendering import markdown
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db

EVIL = (
    "<h1>Hello</h1><script>alert(1)</script>"
    '<img src="https://evil.example/x.png" onerror="alert(1)">'
)


def provenance() -> Provenance:
    return Provenance(
        run_id=uuid.uuid4(), call_id=uuid.uuid4(), agent_name="Scribe", agent_slug="scribe"
    )


def saved(
    owner: User, room: Room, body: str, kind: str = "markdown", title: str = "Notes"
) -> ArtifactVersion:
    return create_artifact(
        owner=owner,
        room_id=room.pk,
        title=title,
        kind=kind,
        language="python" if kind == "code" else "",
        body=body,
        provenance=provenance(),
    )


def address(version: ArtifactVersion, what: str = "preview") -> str:
    return f"/artifacts/{version.artifact_id}/versions/{version.number}/{what}"


@pytest.mark.parametrize("kind", ["text", "markdown", "html", "svg", "code"])
def test_a_preview_may_run_nothing_and_reach_nothing(member: User, room: Room, kind: str) -> None:
    answer = signed_in(member).get(address(saved(member, room, EVIL, kind)))
    policy = answer["Content-Security-Policy"]
    assert answer.status_code == 200
    assert policy.startswith("sandbox")
    for word in ("allow-scripts", "allow-same-origin", "allow-forms", "http", "connect-src"):
        assert word not in policy
    assert "default-src 'none'" in policy
    assert "form-action 'none'" in policy
    # Our own pages, and nobody else's, may put it into a frame.
    assert "frame-ancestors 'self'" in policy
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer["X-DNS-Prefetch-Control"] == "off"
    assert "no-store" in answer["Cache-Control"]


def test_html_is_shown_as_it_is_under_the_strictest_policy(member: User, room: Room) -> None:
    answer = signed_in(member).get(address(saved(member, room, EVIL, "html")))
    assert answer.content.decode() == EVIL
    assert answer["Content-Security-Policy"].startswith(
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )


def test_a_drawing_is_only_ever_an_image(member: User, room: Room) -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>1</script></svg>'
    page = signed_in(member).get(address(saved(member, room, drawing, "svg"))).content.decode()
    assert "alert(1)" not in page
    assert "<svg" not in page
    assert '<img src="data:image/svg+xml;base64,' in page


@pytest.mark.parametrize("kind", ["text", "code"])
def test_plain_kinds_are_text(member: User, room: Room, kind: str) -> None:
    page = signed_in(member).get(address(saved(member, room, EVIL, kind))).content.decode()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize(
    ("written", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ('<img src=x onerror="alert(1)">', "<img"),
        ("[a](javascript:alert(1))", "href"),
        ("[a](JaVaScRiPt:alert(1))", "href"),
        ("[a](data:text/html,<script>)", "href"),
        ("[a](vbscript:x)", "href"),
        ("![a](https://evil.example/x.png)", "src"),
        ("![a](data:image/svg+xml;base64,PHN2Zz4=)", "src="),
        ("[a](//evil.example)", "href"),
        ("<https://fine.example>\n\n<iframe src=x></iframe>", "<iframe"),
        ("<style>*{display:none}</style>", "<style"),
        ('# x {onclick="1"}\n<h1 onclick="1">', "<h1 onclick"),
    ],
)
def test_markdown_holds_only_harmless_elements(written: str, never: str) -> None:
    assert never not in markdown(written)


def test_markdown_keeps_what_documents_are_made_of() -> None:
    page = markdown("# T\n\n- *a* **b** `c` ~~d~~\n\n| x | y |\n|---|--:|\n| 1 | 2 |\n\n> q\n\n---")
    for element in ("h1", "li", "em", "strong", "code", "s", "table", "th", "td", "blockquote"):
        assert f"<{element}" in page


def test_links_leave_the_frame_without_taking_anything_along() -> None:
    page = markdown("[a](https://fine.example/?x=1)")
    assert 'href="https://fine.example/?x=1"' in page
    assert 'target="_blank"' in page
    assert 'rel="noopener noreferrer nofollow"' in page


def test_a_preview_follows_the_theme_of_the_page_around_it(member: User, room: Room) -> None:
    version = saved(member, room, "# Hi")
    client = signed_in(member)
    assert 'data-theme="dark"' in client.get(address(version) + "?theme=dark").content.decode()
    odd = client.get(address(version) + '?theme="><script>').content.decode()
    assert "<script>" not in odd
    assert "data-theme" not in odd


def test_each_version_has_its_own_page(member: User, room: Room) -> None:
    first = saved(member, room, "old words")
    update_artifact(
        member=member,
        room_id=room.pk,
        artifact_id=first.artifact_id,
        expected_version=1,
        body="new words",
        title=None,
        provenance=provenance(),
    )
    client = signed_in(member)
    assert "old words" in client.get(address(first)).content.decode()
    newer = address(first).replace("/versions/1/", "/versions/2/")
    assert "new words" in client.get(newer).content.decode()
    assert client.get(address(first).replace("/versions/1/", "/versions/3/")).status_code == 404


@pytest.mark.parametrize("what", ["preview", "download"])
def test_a_foreign_artifact_looks_like_one_that_does_not_exist(
    member: User, guest: User, stranger: User, room: Room, what: str
) -> None:
    version = saved(member, room, "secret words")
    assert signed_in(guest).get(address(version, what)).status_code == 200
    foreign = signed_in(stranger).get(address(version, what))
    assert foreign.status_code == 404
    assert "secret words" not in foreign.content.decode()
    assert Client().get(address(version, what)).status_code == 302
    remove_participant(room_id=room.pk, actor=member, username="tomas")
    assert signed_in(guest).get(address(version, what)).status_code == 404


@pytest.mark.parametrize(
    ("kind", "title", "name"),
    [
        ("markdown", "Notes", "Notes v1.md"),
        ("html", "Page", "Page v1.html"),
        ("svg", "Chart.svg", "Chart v1.svg"),
        ("text", "../../etc/passwd", "etc-passwd v1.txt"),
        ("code", "main", "main v1.py"),
        ("text", '"; evil="', "evil v1.txt"),
    ],
)
def test_a_download_is_a_file_and_never_a_page(
    member: User, room: Room, kind: str, title: str, name: str
) -> None:
    version = saved(member, room, EVIL, kind, title)
    answer = signed_in(member).get(address(version, "download"))
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    assert f'filename="{name}"' in answer["Content-Disposition"]
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer.getvalue().decode() == EVIL


def test_a_title_in_any_script_becomes_a_file_name(member: User, room: Room) -> None:
    version = saved(member, room, "x", "text", "Übersicht 概要")
    disposition = signed_in(member).get(address(version, "download"))["Content-Disposition"]
    assert "filename*=utf-8''%C3%9Cbersicht" in disposition
