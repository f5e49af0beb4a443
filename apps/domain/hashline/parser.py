"""Which hunks does a section hold? Rows in, hunks out, or the first rule that is broken."""

from __future__ import annotations

from dataclasses import dataclass

from apps.domain.hashline.bodies import settle_body
from apps.domain.hashline.model import BlockAt, Cut, FileOp, Hunk, Move, Paste, Put, Remove, Span
from apps.domain.hashline.overlap import settle_overlap
from apps.domain.hashline.refusals import Caution, Refusal, Rule, clip
from apps.domain.hashline.rows import (
    Header,
    Verb,
    is_elision,
    is_foreign,
    lacks_verb,
    looks_like_hunk,
    read_bare_range,
    read_header,
    read_numbered,
)
from apps.domain.hashline.sections import Part, Section
from apps.domain.hashline.text import is_blank

MAX_RANGE = 100_000
MAX_HUNKS = 4_096


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a section asks for, in the order written."""

    hunks: tuple[Hunk, ...]
    file_op: FileOp | None
    cautions: tuple[Caution, ...]


def parse(section: Section) -> Parsed:
    """Read every part of a section and check what can be checked without its file."""
    reader = _Reader(section.path)
    for part in section.parts:
        reader.read(part)
    if isinstance(reader.file_op, Remove) and reader.hunks:
        raise Refusal(
            Rule.REM_WITH_EDITS,
            "REM removes the whole file, so nothing else may stand in its section.",
            path=section.path,
            row=reader.file_op.row,
        )
    hunks, dropped = settle_overlap(reader.hunks, path=section.path)
    if dropped:
        reader.cautions.append(Caution.DUPLICATE_RANGE_LAST_WINS)
    if section.interleaved and any(isinstance(hunk, Cut | Paste) for hunk in hunks):
        raise Refusal(
            Rule.REGISTERS_IN_INTERLEAVED_SECTIONS,
            "Another file's section stands between two of this file, so cuts and pastes would"
            " change their order. Put all hunks of a file into one section.",
            path=section.path,
        )
    return Parsed(tuple(hunks), reader.file_op, tuple(_once_each(reader.cautions)))


def _once_each(cautions: list[Caution]) -> list[Caution]:
    """Keep each warning once, save the one that speaks of a single row."""
    kept: list[Caution] = []
    for caution in cautions:
        if caution is Caution.OP_AS_BODY_ROW or caution not in kept:
            kept.append(caution)
    return kept


class _Reader:
    """Goes through the rows of a section; knows the hunk above and whether it takes body rows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: tuple[str, ...] = ()
        self._header: Header | None = None
        self._row = 0
        self._body: list[str] = []
        self._numbered: set[int] = set()
        self._comment: int | None = None
        self.hunks: list[Hunk] = []
        self.file_op: FileOp | None = None
        self.cautions: list[Caution] = []

    def read(self, part: Part) -> None:
        self._rows = part.rows
        for number, row in enumerate(part.rows, start=1):
            self._take(number, row)
        self._close()
        self._check_comment()

    @property
    def _open(self) -> bool:
        header = self._header
        return header is not None and header.verb is Verb.PUT and header.colon

    def _take(self, number: int, row: str) -> None:
        if row.startswith("+"):
            self._take_plus(number, row)
        elif (header := read_header(row)) is not None:
            self._begin(number, header)
        elif looks_like_hunk(row):
            raise self._orphan(number, row)
        elif is_foreign(row, inside_hunk=self._open):
            raise self._foreign(number, row)
        elif self._open:
            self._body.append(row)
        elif not is_blank(row):
            self._take_outside(number, row)

    def _take_plus(self, number: int, row: str) -> None:
        if self._open:
            self._body.append(row)
            return
        if self._header is not None:
            raise self._refusal(*_unwanted_body(self._header), number)
        if row.startswith("+++ "):
            raise self._foreign(number, row)
        raise self._orphan(number, row)

    def _take_outside(self, number: int, row: str) -> None:
        """Read a row that stands in no hunk: near misses, then nothing."""
        if (span := read_bare_range(row)) is not None:
            self._begin(number, Header(Verb.PUT, span, None, colon=True))
            self.cautions.append(Caution.BARE_RANGE_AS_PUT)
        elif is_elision(row):
            self._close()
            self.cautions.append(Caution.ELISION_IGNORED)
        elif (numbered := read_numbered(row)) is not None and not (
            is_blank(numbered[1]) and self._plus_follows(number)
        ):
            self._replace_numbered(number, *numbered)
        elif row.lstrip(" \t").startswith("#"):
            self._close()
            if self._comment is None:
                self._comment = number
        elif lacks_verb(row):
            raise self._refusal(
                Rule.HEADER_WITHOUT_VERB,
                f"{clip(row)} lacks its verb: write 'PUT 3.=4:' to replace lines, 'CUT 3.=4' to"
                " take them out.",
                number,
            )
        else:
            raise self._orphan(number, row)

    def _plus_follows(self, number: int) -> bool:
        following = (row for row in self._rows[number:] if not is_blank(row))
        return next(following, "").startswith("+")

    def _replace_numbered(self, number: int, line: int, text: str) -> None:
        self._close()
        self._check_comment()
        if line in self._numbered:
            raise self._refusal(
                Rule.REPEATED_NUMBERED_ROW,
                f"Line {line} is given twice; write 'PUT {line}.={line}:' with all its rows.",
                number,
            )
        self._numbered.add(line)
        self._add(Put(Span(line, line), (text,), number))
        self.cautions.append(Caution.NUMBERED_ROWS_AS_PUT)

    def _begin(self, number: int, header: Header) -> None:
        self._close()
        self._comment = None
        if header.register is not None and header.colon and header.verb is Verb.PUT:
            raise self._refusal(
                Rule.REGISTER_WITH_COLON,
                f"A colon promises body rows, and a register has none: write '@{header.register}'"
                " without a colon.",
                number,
            )
        if isinstance(header.place, Span):
            self._check_span(header.place, number)
        self._header, self._row, self._body = header, number, []

    def _close(self) -> None:
        """Turn the hunk above into what it asks for."""
        header, self._header = self._header, None
        if header is None:
            return
        match header.verb:
            case Verb.PUT:
                self._close_put(header)
            case Verb.CUT:
                if isinstance(header.place, Span | BlockAt):
                    self._add(Cut(header.place, header.register, self._row))
                if header.colon:
                    self.cautions.append(Caution.CUT_COLON_IGNORED)
            case Verb.REM:
                self._set_file_op(Remove(self._row))
            case Verb.MV:
                self._set_file_op(Move(header.destination, self._row))

    def _close_put(self, header: Header) -> None:
        place = header.place
        if place is None:
            return
        over_lines = isinstance(place, Span | BlockAt)
        if not header.colon:
            if over_lines and header.register is None:
                raise self._refusal(
                    Rule.SPAN_NEEDS_REGISTER,
                    "Without a colon, PUT over lines or a block needs a register (' @name'). For"
                    " new text write a colon and '+' rows; to delete, CUT.",
                    self._row,
                )
            self._add(Paste(place, header.register, self._row))
            return
        body, cautions = settle_body(self._body, path=self._path, row=self._row)
        if not body and not over_lines:
            raise self._refusal(
                Rule.INSERT_WITHOUT_BODY,
                "The colon promises rows to insert and none follow; begin each with '+'.",
                self._row,
            )
        self.cautions.extend(cautions)
        if not body:
            self.cautions.append(Caution.EMPTY_PUT_AS_DELETE)
        self._add(Put(place, body, self._row))

    def _add(self, hunk: Hunk) -> None:
        if len(self.hunks) >= MAX_HUNKS:
            raise self._refusal(
                Rule.PATCH_TOO_LARGE, f"A section may have at most {MAX_HUNKS} hunks.", hunk.row
            )
        self.hunks.append(hunk)

    def _set_file_op(self, file_op: FileOp) -> None:
        if self.file_op is not None:
            raise self._refusal(
                Rule.MULTIPLE_FILE_OPS, "A section may hold one REM or one MV.", file_op.row
            )
        self.file_op = file_op

    def _check_span(self, span: Span, number: int) -> None:
        if span.last < span.first:
            raise self._refusal(
                Rule.RANGE_REVERSED,
                f"The range ends before it begins: {span.first}.={span.last}. The second number is"
                " the last line, not a count.",
                number,
            )
        if span.last - span.first >= MAX_RANGE:
            raise self._refusal(
                Rule.RANGE_TOO_LARGE, f"A range may cover at most {MAX_RANGE} lines.", number
            )

    def _check_comment(self) -> None:
        if self._comment is not None:
            raise self._orphan(self._comment, self._rows[self._comment - 1])

    def _foreign(self, number: int, row: str) -> Refusal:
        return self._refusal(
            Rule.FOREIGN_SYNTAX,
            f"{clip(row, 30)} belongs to another patch format; hunks begin with PUT, CUT, REM or"
            " MV.",
            number,
        )

    def _orphan(self, number: int, row: str) -> Refusal:
        return self._refusal(
            Rule.ORPHAN_ROW,
            f"{clip(row)} belongs to no hunk. A hunk begins with PUT, CUT, REM or MV in capitals,"
            " line numbers begin at 1, and body rows begin with '+'.",
            number,
        )

    def _refusal(self, rule: Rule, sentence: str, number: int) -> Refusal:
        return Refusal(rule, sentence, path=self._path, row=number)


def _unwanted_body(header: Header) -> tuple[Rule, str]:
    if header.verb is Verb.CUT:
        return Rule.CUT_WITH_BODY, "CUT takes lines out and has no body; PUT replaces them."
    if header.verb is not Verb.PUT:
        return Rule.FILE_OP_WITH_BODY, f"{header.verb.value} has no body rows."
    if header.register is not None:
        return Rule.REGISTER_WITH_BODY, "A paste takes its rows from the register, not from a body."
    return Rule.COLONLESS_WITH_BODY, "Body rows follow only after a colon: write 'PUT …:'."
