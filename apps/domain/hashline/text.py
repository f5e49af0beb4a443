"""What is *the text* of a file, where are its lines, and what is its tag?

Tags, line numbers, snapshots and diffs all speak of the normalised text: no byte order mark, and LF
as the only line break. How the file looked before is kept beside it and put back on writing.
"""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from apps.domain.hashline.refusals import Refusal, Rule

MAX_FILE_BYTES = 2 * 1024 * 1024
"""The largest file that may be read or written by way of Hashline."""

_BOM = "\ufeff"
_BLANKS = " \t\r"


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, and how the file on disk differs from it."""

    text: str
    newline: str = "\n"
    bom: bool = False

    def on_disk(self, text: str) -> str:
        """Return another text in the form in which this file lay on disk."""
        body = text if self.newline == "\n" else text.replace("\n", self.newline)
        return _BOM + body if self.bom else body


def read_text(content: str, *, path: str = "") -> FileText:
    """Normalise what lies on disk, or refuse what is too large or no text."""
    check_size(content, path=path)
    bom = content.startswith(_BOM)
    body = content[1:] if bom else content
    if "\r" not in body:
        return FileText(body, "\n", bom)
    pair, single = body.find("\r\n"), body.find("\n")
    # The first CRLF counts only if no bare LF stands before it.
    newline = "\r\n" if pair >= 0 and single == pair + 1 else "\n"
    return FileText(body.replace("\r\n", "\n").replace("\r", "\n"), newline, bom)


def check_size(content: str, *, path: str) -> None:
    """Refuse content that is larger than a file may be, or that UTF-8 cannot hold."""
    if len(content) > MAX_FILE_BYTES or len(encoded(content, path=path)) > MAX_FILE_BYTES:
        raise Refusal(
            Rule.FILE_TOO_LARGE,
            f"A text file may have at most {MAX_FILE_BYTES} bytes.",
            path=path,
        )


def encoded(content: str, *, path: str = "") -> bytes:
    """Return the UTF-8 form, or refuse text with halves of characters in it."""
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise Refusal(
            Rule.NOT_TEXT, "The text holds half a character (a lone surrogate).", path=path
        ) from None


def rows_of(text: str) -> list[str]:
    """Return what stands between LF characters, the empty tail row included."""
    return text.split("\n")


def has_tail_row(rows: list[str]) -> bool:
    """Tell whether the last row only marks the final newline and is no line of the file."""
    return len(rows) > 1 and rows[-1] == ""


def count_lines(rows: list[str]) -> int:
    """Return how many lines the file has; an empty file has one, which is empty."""
    return len(rows) - 1 if has_tail_row(rows) else len(rows)


def tag_of(text: str) -> str:
    """Return the four hex digits under which a retained text is found. They prove nothing."""
    return f"{xxhash.xxh32_intdigest(encoded(_without_trailing_blanks(text))) & 0xFFFF:04X}"


def _without_trailing_blanks(text: str) -> str:
    if text and text[-1] not in _BLANKS and not any(f"{blank}\n" in text for blank in _BLANKS):
        return text
    return "\n".join([row.rstrip(_BLANKS) for row in text.split("\n")])


def indent_of(row: str) -> str:
    """Return the spaces and tabs with which a row begins."""
    return row[: len(row) - len(row.lstrip(" \t"))]


def is_blank(row: str) -> bool:
    """Tell whether a row holds nothing but spaces and tabs."""
    return not row.strip(" \t")
