"""Is this a PDF, how many pages has it, and what do they say in plain letters?

Only the structure that every reader relies on is checked, and what a reader would carry out is
refused. The words are those that stand in simple text operators; drawn letters are not read.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Final

from .findings import Drawing, Unfit, count

MAX_UNPACKED: Final = 64 * 1024 * 1024
MAX_STREAMS: Final = 5_000
MAX_LINES: Final = 400
_VERSION: Final = re.compile(rb"%PDF-[12]\.\d")
_END: Final = re.compile(rb"startxref\s+(\d{1,10})\s+%%EOF\s*\Z")
_STREAM: Final = re.compile(rb"<<(?P<about>.{0,4000}?)>>\s*stream\r?\n", re.DOTALL)
_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
# Packed bytes do not spell a long word by chance; a short one counts where a value follows.
_LONG: Final = rb"/(?:JavaScript|Launch|EmbeddedFile|RichMedia)(?![A-Za-z])"
_ACTS: Final = re.compile(_LONG + rb"|/JS\s*[(<%\d]|/XFA\s*[\[(<%\d]")
_ACTS_ANYWHERE: Final = re.compile(_LONG)
_ESCAPED: Final = re.compile(rb"#([0-9A-Fa-f]{2})")
_OBJECT: Final = re.compile(rb"\d\s+\d+\s+obj")
_HOLDS_OBJECTS: Final = re.compile(rb"/(?:ObjStm|First)(?![A-Za-z])")
_SHOWS: Final = re.compile(
    rb"\[(?P<many>(?:[^\[\]()\\]|\((?:\\.|[^\\()])*\))*)\]\s*TJ|"
    rb"\((?P<one>(?:\\.|[^\\()])*)\)\s*(?:Tj|')|(?P<line>T\*|\bET\b|\bT[dDm]\b)",
    re.DOTALL,
)
_STRING: Final = re.compile(rb"\((?P<said>(?:\\.|[^\\()])*)\)", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"", b"f": b""}

_CARRIES_OUT: Final = "It would carry something out, or holds a file inside."


def pdf(content: bytes, drawing: Drawing) -> str:
    """Check a PDF."""
    if not _VERSION.match(content):
        raise Unfit("It does not begin as a PDF.")
    end = _END.search(content, max(0, len(content) - 2048))
    if end is None:
        raise Unfit("It does not end as a PDF; it is cut off, or something follows.")
    start = int(end[1])
    if start >= len(content) or not re.match(
        rb"\s*(?:xref|\d+\s+\d+\s+obj)", content[start : start + 40]
    ):
        raise Unfit("Its table of objects is not where it says.")
    pages = 0
    lines: list[str] = []
    plain, streams = _parts(content)
    if _ACTS_ANYWHERE.search(_named(content)):
        raise Unfit(_CARRIES_OUT)
    for text in (plain, *streams):
        if _ACTS.search(_named(text)):
            raise Unfit(_CARRIES_OUT)
        pages += len(_PAGE.findall(text))
    if not pages:
        raise Unfit("It has no pages.")
    for text in streams:
        if len(lines) < MAX_LINES and b"BT" in text:
            lines += _words(text)
    drawing.summary = f"A PDF of {count(pages, 'page')}."
    for line in lines[:MAX_LINES]:
        drawing.text(line)
    return "application/pdf"


def _named(text: bytes) -> bytes:
    """Return text with the letters of its names written out: any of them may be escaped."""
    return _ESCAPED.sub(lambda one: bytes([int(one[1], 16)]), text)


def _parts(content: bytes) -> tuple[bytes, list[bytes]]:
    """Return what stands outside of packed streams, and what the streams hold, pictures aside, as
    far as the bounds allow.
    """
    outside: list[bytes] = []
    found: list[bytes] = []
    left, behind = MAX_UNPACKED, 0
    for place, match in enumerate(_STREAM.finditer(content)):
        if place >= MAX_STREAMS:
            raise Unfit(f"It has more than {MAX_STREAMS:,} streams.")
        # What stands in front of its own object is said of another one, and excuses nothing.
        about = _OBJECT.split(_named(match["about"]))[-1]
        end = content.find(b"endstream", match.end())
        if end < 0:
            raise Unfit("A stream of it is cut off.")
        packed = content[match.end() : end]
        if b"/Filter" in about and match.end() >= behind and not _OBJECT.search(packed):
            outside.append(content[behind : match.end()])
            behind = end
        skipped = b"/Image" in about or b"/FontFile" in about
        text = None if skipped else _unpacked(_named(match["about"]), packed, left)
        if text is not None:
            left -= len(text)
            found.append(text)
        elif b"/Filter" in about and _HOLDS_OBJECTS.search(about):
            raise Unfit("Its objects are packed in a way that cannot be looked into.")
    return b"".join([*outside, content[behind:]]), found


def _unpacked(about: bytes, packed: bytes, left: int) -> bytes | None:
    """Return what a stream holds, or None where it is packed otherwise."""
    if b"/FlateDecode" not in about:
        return None
    try:
        if b"/ASCII85Decode" in about:
            packed = base64.a85decode(packed.strip().removesuffix(b"~>"))
        opened = zlib.decompressobj()
        text = opened.decompress(packed, left)
    except (ValueError, zlib.error):
        return None
    if len(text) >= left or opened.unconsumed_tail:
        raise Unfit(f"It unpacks to more than {MAX_UNPACKED:,} bytes.")
    return text


def _words(text: bytes) -> list[str]:
    lines: list[str] = []
    words: list[bytes] = []
    for match in _SHOWS.finditer(text):
        if match["line"] is not None:
            if words:
                lines.append(_decoded(b"".join(words)))
                words = []
        elif match["one"] is not None:
            words.append(_plain(match["one"]))
        else:
            words += [_plain(one["said"]) for one in _STRING.finditer(match["many"])]
        if len(lines) >= MAX_LINES:
            break
    if words:
        lines.append(_decoded(b"".join(words)))
    return [line for line in lines if line.strip()]


def _plain(said: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        word = match[1]
        if word[:1].isdigit():
            return bytes([int(word, 8) & 0xFF])
        return _LETTERS.get(word, word)

    return _ESCAPE.sub(one, said)


def _decoded(said: bytes) -> str:
    return said.decode("cp1252", "replace")
