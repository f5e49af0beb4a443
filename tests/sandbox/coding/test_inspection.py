"""A file is what its name says from its first byte to its last, or it is not kept."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

import pytest

from apps.sandbox.coding.inspecting import inspect
from apps.sandbox.inspection.__main__ import look
from tests.sandboxd.daemon import Daemon

RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/'
    'vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/'
    'vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>{more}</Types>'
)
ROOT = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{RELATION}/officeDocument" Target="word/document.xml"/>'
    "</Relationships>"
)
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BODY = (
    f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>Hello</w:t></w:r></w:p></w:body>'
    "</w:document>"
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink">%s</svg>'


def pdf(page: bytes = b"", more: bytes = b"") -> bytes:
    body = b"%PDF-1.4\n1 0 obj<</Type /Page" + page + b">>endobj\n" + more
    return body + b"xref\n0 1\ntrailer<<>>\nstartxref\n%d\n%%%%EOF\n" % len(body)


PDF = pdf()


def zipped(members: Mapping[str, str | bytes], **options: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def document(more_types: str = "", **more: str) -> bytes:
    parts = {
        "[Content_Types].xml": TYPES.format(more=more_types),
        "_rels/.rels": ROOT,
        "word/document.xml": BODY,
    }
    return zipped(parts | more)


def png(width: int = 1, height: int = 1, pixels: bytes = b"\0\0\0\0") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(pixels))
        + chunk(b"IEND", b"")
    )


def unfit(name: str, content: bytes) -> str:
    return str(look(name, content).get("unfit", ""))


@pytest.mark.parametrize(
    ("name", "content", "media", "summary"),
    [
        ("a.docx", document(), "wordprocessingml.document", "1 paragraph and 0 tables"),
        ("a.zip", zipped({"x/y.txt": "hello"}), "application/zip", "1 file,"),
        ("a.png", png(), "image/png", "1 x 1"),
        ("a.svg", SVG % b"<rect/>", "image/svg+xml", "drawing"),
        ("a.pdf", PDF, "application/pdf", "1 page"),
        ("a.csv", b"a,b\n1,2\n", "text/csv", "2 rows"),
        ("a.json", b'{"a": [1, 2]}', "application/json", "JSON"),
        ("a.html", b"<title>T</title><p>x</p>", "text/html", "T"),
        ("deep/er/a.md", b"# T", "text/markdown", "1 line"),
    ],
)
def test_a_sound_file_is_known_for_what_it_is(
    name: str, content: bytes, media: str, summary: str
) -> None:
    found = look(name, content)
    assert "unfit" not in found
    assert media in found["media"]
    assert summary in found["preview"]["summary"]


def test_the_paragraphs_of_a_document_are_those_that_stand_beside_its_tables() -> None:
    table = "<w:tbl><w:tr><w:tc><w:p/></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl></w:body>"
    found = look("a.docx", document(**{"word/document.xml": BODY.replace("</w:body>", table)}))
    assert "1 paragraph and 1 table" in found["preview"]["summary"]


SAMPLES = {
    "txt": b"just text",
    "png": png(),
    "pdf": PDF,
    "zip": zipped({"a": "b"}),
    "svg": SVG % b"",
    "exe": b"MZ\x90\0",
    "nothing": b"",
    "docx": document(),
}


@pytest.mark.parametrize("ending", ["docx", "png", "pdf", "svg", "xlsx", "pptx", "gif", "jpg"])
@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_an_ending_that_does_not_match_the_bytes_is_unfit(ending: str, kind: str) -> None:
    assert bool(unfit(f"a.{ending}", SAMPLES[kind])) is (ending != kind)


@pytest.mark.parametrize("name", ["a.exe", "a", "a.so", "a.docm", "a.xlsm", "a.sqlite", "a.pickle"])
def test_what_cannot_be_checked_is_not_kept(name: str) -> None:
    assert "none can be checked" in unfit(name, b"whatever")


def test_an_archive_that_grows_beyond_all_measure_is_unfit() -> None:
    assert "200 times" in unfit("a.zip", zipped({"a": b"\0" * 30_000_000}))
    many = zipped({f"{n}": b"\0" * 900_000 for n in range(160)})
    assert "unpacks to more" in unfit("a.zip", many)
    assert "members" in unfit("a.zip", zipped({f"{n}": "" for n in range(2_001)}))


def test_a_document_that_is_a_bomb_is_unfit() -> None:
    assert "200 times" in unfit("a.docx", document(**{"word/x.xml": "<a/>" + " " * 30_000_000}))


def test_members_that_share_bytes_are_unfit() -> None:
    content = bytearray(zipped({"aaaa": "x" * 100, "bbbb": "y" * 100}))
    second = content.rindex(b"PK\x01\x02")
    # The second entry of the directory points at the first member.
    content[second + 42 : second + 46] = struct.pack("<I", 0)
    assert "overlap" in unfit("a.zip", bytes(content)) or "unpacked" in unfit(
        "a.zip", bytes(content)
    )


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "c:\\x", "c:x"])
def test_a_member_that_leads_out_of_the_archive_is_unfit(name: str) -> None:
    assert "outside" in unfit("a.zip", zipped({name: "x"}))


ENTITY = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d>&x;</d>'
LAUGHS = '<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><d>&b;</d>'


@pytest.mark.parametrize("markup", [ENTITY, LAUGHS], ids=["external", "billion laughs"])
def test_entities_are_never_expanded_wherever_the_markup_lies(markup: str) -> None:
    assert "declares" in unfit("a.xml", markup.encode())
    assert "declares" in unfit("a.docx", document(**{"word/styles.xml": markup}))
    assert "declares" in unfit("a.docx", document(**{"_rels/.rels": markup}))
    drawing = markup.replace("<d>", '<svg xmlns="http://www.w3.org/2000/svg">').replace(
        "</d>", "</svg>"
    )
    assert "declares" in unfit("a.svg", drawing.encode())


def test_a_document_holds_no_program_and_pulls_nothing_in() -> None:
    macro = '<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/>'
    assert "macro" in unfit("a.docx", document(macro))
    assert "macro" in unfit("a.docx", document(**{"word/vbaProject.bin": "x"}))
    outside = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{RELATION}/{{kind}}" Target="http://x.example/t.dotm"'
        ' TargetMode="External"/></Relationships>'
    )
    place = "word/_rels/document.xml.rels"
    assert "outside" in unfit(
        "a.docx", document(**{place: outside.format(kind="attachedTemplate")})
    )
    assert not unfit("a.docx", document(**{place: outside.format(kind="hyperlink")}))
    shouted = {place.upper(): outside.format(kind="attachedTemplate")}
    assert "outside" in unfit("a.docx", document(**shouted))
    inside = outside.replace(' TargetMode="External"', "").format(kind="oleObject")
    assert "program" in unfit("a.docx", document(**{place: inside}))


@pytest.mark.parametrize(
    ("inside", "fits"),
    [
        ('<w:fldSimple w:instr=" DDEAUTO cmd x"/>', False),
        ("<w:r><w:instrText>DDE</w:instrText></w:r><w:instrText>AUTO c</w:instrText>", False),
        ('<w:instrText>IncludePicture "http://x.example/"</w:instrText>', False),
        ("<w:ddeLink/>", False),
        ("<w:instrText>PAGE</w:instrText><w:r><w:t>DDE is a word</w:t></w:r>", True),
        ('<w:fldSimple w:instr="TOC \\o 1-3"/>', True),
    ],
)
def test_fields_of_a_document_start_and_fetch_nothing(inside: str, fits: bool) -> None:
    part = f'<w:d xmlns:w="{WORD}">{inside}</w:d>'
    assert (not unfit("a.docx", document(**{"word/header1.xml": part}))) is fits


@pytest.mark.parametrize(
    "inside",
    [
        b"<script>x</script>",
        b"<foreignObject/>",
        b'<rect onload="x"/>',
        b'<image x:href="http://x.example/p.png"/>',
        b'<use href="file:///etc/passwd"/>',
        b'<a x:href="javascript:x"/>',
        b'<?xml-stylesheet href="http://x.example/a.css"?>',
        b"<style>@import 'http://x.example/a.css';</style>",
        b"<style>@font-face { src: url(http://x.example/f) }</style>",
        b"<style><![CDATA[* { fill: u\\72l(http://x.example/) }]]></style>",
        b"<style>* { fill: ur<a>x</a>l(http://x.example/) }</style>",
        b"<rect style=\"fill: url( 'http://x.example/')\"/>",
        b'<rect fill="u\\72l(http://x.example/#a)"/>',
        b'<a><set attributeName="href" to="javascript:x"/></a>',
        b'<a><animate attributeName="x:href" values="javascript:x"/></a>',
        b'<rect><set attributeName="onclick" to="x"/></rect>',
        b'<g xml:base="http://x.example/"><use href="#a"/></g>',
        b'<p xmlns="http://www.w3.org/1999/xhtml"/>',
    ],
)
def test_a_drawing_runs_nothing_and_loads_nothing(inside: bytes) -> None:
    assert "may not" in unfit("a.svg", SVG % inside)


@pytest.mark.parametrize(
    "inside",
    [
        b"<style>* { stroke-linejoin: round; fill: url(#a) }</style>",
        b'<g clip-path="url(#a)" style="fill: url( \'#b\')" aria-label="C:\\x"/>',
        b'<rect><animate attributeName="x" to="3"/></rect><?xpacket begin="x"?>',
        b'<image x:href="data:image/png;base64,AAAA"/>',
    ],
)
def test_a_drawing_may_refer_to_itself(inside: bytes) -> None:
    assert not unfit("a.svg", SVG % inside)


@pytest.mark.parametrize("action", [b"/JavaScript", b"/JS", b"/Launch", b"/EmbeddedFile"])
def test_a_pdf_carries_nothing_out(action: bytes) -> None:
    assert "carry something out" in unfit("a.pdf", pdf(b" " + action + b" (x)"))
    hidden = zlib.compress(b"<<" + action + b" (x)>>")
    stream = b"2 0 obj<</Filter /FlateDecode>>stream\n" + hidden + b"\nendstream endobj\n"
    assert "carry something out" in unfit("a.pdf", pdf(more=stream))
    escaped = b"/#%02X" % action[1] + action[2:]
    assert "carry something out" in unfit("a.pdf", pdf(b" " + escaped + b" (x)"))
    # A reader finds an object wherever the table says, also where a stream seems to lie.
    inside = b"3 0 obj<<" + action + b" (x)>>endobj"
    stream = b"2 0 obj<</Filter /DCTDecode>>stream\n" + inside + b"\nendstream endobj\n"
    assert "carry something out" in unfit("a.pdf", pdf(more=stream))


def test_objects_of_a_pdf_are_packed_so_that_they_can_be_looked_into() -> None:
    about = b"2 0 obj<</Type /ObjStm /N 1 /First 4 /Filter %s>>stream\nx\nendstream endobj\n"
    for packed in (b"/LZWDecode", b"/FlateDecode /Image 1", b"/FlateDecode"):
        assert "looked into" in unfit("a.pdf", pdf(more=about % packed))


def test_the_bytes_of_a_picture_in_a_pdf_may_spell_a_short_word() -> None:
    picture = b"2 0 obj<</Subtype /Image /Filter [/ASCII85Decode /FlateDecode]>>stream\n"
    assert not unfit("a.pdf", pdf(more=picture + b"9jq/JS(o/XFA^\nendstream endobj\n"))


@pytest.mark.parametrize("kind", ["png", "pdf", "svg", "txt"])
def test_a_file_that_is_an_archive_at_the_same_time_is_unfit(kind: str) -> None:
    sample = SAMPLES[kind]
    assert unfit(f"a.{kind}", sample + zipped({"a": "b"}))
    # A comment of the archive can hold what the other reader expects at the end.
    ended = zipped({"a": "b"})[:-2] + struct.pack("<H", len(sample)) + sample
    assert unfit(f"a.{kind}", sample + ended)


def test_nothing_lies_in_front_of_an_archive_or_behind_it() -> None:
    plain = zipped({"a": "b"})
    assert unfit("a.zip", b"#!/bin/sh\n" + plain)
    assert unfit("a.zip", plain + b"more")
    assert unfit("a.docx", PDF + document())


def test_a_picture_holds_as_many_pixels_as_it_says_and_no_more() -> None:
    assert "more than the picture" in unfit("a.png", png(pixels=b"\0" * 50_000_000))
    assert "less than" in unfit("a.png", png(width=100))
    assert "cannot be drawn" in unfit("a.png", png(width=100_000))
    assert "cannot be drawn" in unfit("a.png", png(width=20_000, height=20_000))
    assert "damaged" in unfit("a.png", png()[:-1] + b"x")


def test_text_is_text() -> None:
    assert "UTF-8" in unfit("a.csv", b"\xff\xfe")
    assert "NUL" in unfit("a.txt", b"a\0b")
    assert "nested" in unfit("a.json", b"[" * 5_000 + b"]" * 5_000)
    assert "not JSON" in unfit("a.json", b'{"a": NaN}')


def test_what_there_is_to_look_at_is_bounded() -> None:
    found = look("a.csv", b"\n".join(b"x" * 5_000 for _ in range(5_000)))
    assert found["preview"]["cut"] is True
    assert len(str(found["preview"])) < 100_000


def test_files_are_looked_at_in_a_sandbox_of_their_own(daemon: Daemon) -> None:
    found = inspect(
        [("a.csv", b"a,b\n"), ("b.docx", document()), ("c.png", b"no picture")], path=daemon.socket
    )
    assert [(one.name, bool(one.media_type), bool(one.unfit)) for one in found] == [
        ("a.csv", True, False),
        ("b.docx", True, False),
        ("c.png", False, True),
    ]
    assert found[1].preview is not None
    assert found[1].preview["parts"][0]["blocks"][0]["text"] == "Hello"


def test_a_file_that_cannot_be_checked_in_time_is_unfit(daemon: Daemon) -> None:
    slow = b"<" * 2 + b"<<" * 8_000_000
    [found] = inspect([("a.pdf", b"%PDF-1.4\n" + slow)], path=daemon.socket, deadline_s=0.001)
    assert "could not be checked" in found.unfit
