"""How is a patch divided? Into one section for each file, its parts in the order written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from apps.domain.hashline.refusals import Refusal, Rule, clip
from apps.domain.hashline.rows import (
    Verb,
    is_foreign,
    is_notice,
    read_header,
    unquoted,
)
from apps.domain.hashline.text import encoded, is_blank

MAX_PATCH_BYTES = 4 * 1024 * 1024
MAX_PATCH_ROWS = 100_000
MAX_SECTIONS = 64
MAX_PATH_BYTES = 1024

_BEGIN = "*** Begin Patch"
_ENDS = ("*** End Patch", "*** Abort")
_TAG = re.compile(r"[0-9A-Fa-f]{4}")
_DECORATION = re.compile(r"\*{3}[ \t]*(?:(?:Update|Add|Delete) File:|Move to:)?[ \t]*")
_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class Part:
    """The rows below one section header."""

    path: str
    tag: str | None
    rows: tuple[str, ...] = ()
    doubtful: bool = False
    """It stood inside a section without a tag, so it may have been meant as text."""

    @property
    def empty(self) -> bool:
        """Tell whether nothing stands below the header."""
        return all(is_blank(row) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Section:
    """All that one patch says about one file."""

    path: str
    tag: str | None
    parts: tuple[Part, ...]
    interleaved: bool
    """Another file's section stands between its parts."""


def split(patch: str) -> list[Section]:
    """Return the sections of a patch, those of one path joined into the first, or refuse it."""
    if len(patch) > MAX_PATCH_BYTES or len(encoded(patch)) > MAX_PATCH_BYTES:
        raise Refusal(
            Rule.PATCH_TOO_LARGE, f"A patch may have at most {MAX_PATCH_BYTES} bytes; split it."
        )
    if patch.count("\n") > MAX_PATCH_ROWS:
        raise Refusal(
            Rule.PATCH_TOO_LARGE, f"A patch may have at most {MAX_PATCH_ROWS} rows; split it."
        )
    return _joined(_parts(patch.removeprefix("\ufeff")))


def _parts(patch: str) -> list[Part]:
    parts: list[Part] = []
    below: list[list[str]] = []
    # Whether the hunk above is still open for body rows, and none with a plus has come yet.
    awaits_body = False
    for row in patch.split("\n"):
        row = row.removesuffix("\r")
        if row.startswith("+"):
            awaits_body = False
        elif row.startswith("***") and row.rstrip(_BLANKS) in _ENDS:
            break
        elif (part := _read_section_header(row)) is not None:
            if part.tag is None and awaits_body:
                raise _bracket_in_body(part, parts[-1], len(below[-1]) + 1)
            parts.append(replace(part, doubtful=part.tag is None and bool(parts)))
            below.append([])
            awaits_body = False
            continue
        elif (header := read_header(row)) is not None:
            awaits_body = header.verb is Verb.PUT and header.colon
        if parts:
            below[-1].append(row)
        elif not is_blank(row) and row.rstrip(_BLANKS) != _BEGIN:
            raise _no_header(row)
    if not parts:
        raise _no_header("")
    return [replace(part, rows=tuple(rows)) for part, rows in zip(parts, below, strict=True)]


def _bracket_in_body(part: Part, above: Part, row: int) -> Refusal:
    return Refusal(
        Rule.BAD_SECTION_HEADER,
        f"[{clip(part.path)}] stands where body rows are awaited. Begin a body row with '+'; give a"
        " section header its tag.",
        path=above.path,
        row=row,
    )


def _no_header(row: str) -> Refusal:
    if is_foreign(row, inside_hunk=False):
        return _foreign(row)
    return Refusal(
        Rule.MISSING_SECTION_HEADER,
        "A patch begins with a section header, [PATH#TAG], in the first column.",
    )


def _foreign(row: str) -> Refusal:
    return Refusal(
        Rule.FOREIGN_SYNTAX,
        f"{clip(row, 30)} belongs to another patch format. Write [PATH#TAG] and hunks such as"
        " 'PUT 3.=4:' with '+' rows.",
    )


def _read_section_header(row: str) -> Part | None:
    if not row.startswith("["):
        return None
    row = row.rstrip(_BLANKS)
    if not row.endswith("]") or is_notice(row):
        return None
    inner = unquoted(row[1:-1].strip(_BLANKS))
    inner = inner[_decoration(inner) :]
    path, hash_sign, tag = inner.rpartition("#")
    if not hash_sign:
        path, tag = inner, ""
    path = unquoted(path.strip(_BLANKS))
    if not path or "#" in path:
        raise _bad_header(row, "its path is empty or holds a '#'")
    if len(encoded(path)) > MAX_PATH_BYTES:
        raise _bad_header(row, f"its path is longer than {MAX_PATH_BYTES} bytes")
    if hash_sign and _TAG.fullmatch(tag) is None:
        raise _bad_header(row, "a tag has exactly four hex digits")
    return Part(path, tag.upper() if hash_sign else None)


def _decoration(inner: str) -> int:
    found = _DECORATION.match(inner)
    return found.end() if found else 0


def _bad_header(row: str, why: str) -> Refusal:
    return Refusal(Rule.BAD_SECTION_HEADER, f"{clip(row)} is no section header: {why}.")


def _joined(parts: list[Part]) -> list[Section]:
    tagged = {part.path for part in parts if part.tag is not None}
    by_path: dict[str, list[Part]] = {}
    interleaved: set[str] = set()
    above = ""
    for part in parts:
        if part.empty:
            if part.doubtful and part.path not in tagged:
                raise _bad_header(f"[{part.path}]", "inside a section a header needs its tag")
            continue
        if part.path in by_path and above != part.path:
            interleaved.add(part.path)
        by_path.setdefault(part.path, []).append(part)
        above = part.path
    if not by_path:
        raise Refusal(Rule.NO_SECTIONS, "The patch has section headers and no hunks below them.")
    if len(by_path) > MAX_SECTIONS:
        raise Refusal(
            Rule.PATCH_TOO_LARGE, f"A patch may change at most {MAX_SECTIONS} files; split it."
        )
    # A header without hunks may still lend its tag to another part of the same file.
    return [
        Section(path, _agreed(path, parts), tuple(own), path in interleaved)
        for path, own in by_path.items()
    ]


def _agreed(path: str, parts: list[Part]) -> str | None:
    tags = list(dict.fromkeys(part.tag for part in parts if part.path == path and part.tag))
    if len(tags) > 1:
        raise Refusal(
            Rule.CONFLICTING_TAGS,
            f"The sections name the tags {tags[0]} and {tags[1]}; all of a file's hunks must refer"
            " to one text.",
            path=path,
        )
    return tags[0] if tags else None
