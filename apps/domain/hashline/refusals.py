"""Which refusals and warnings does Hashline know, and what does each carry?

A refusal ends the whole call and nothing is written. A warning says that the edit stands although
it was not written as it should be, or not applied quite where it was written.
"""

from __future__ import annotations

from enum import StrEnum

MAX_SENTENCE = 600
"""More characters than this say nothing more."""


class Rule(StrEnum):
    """Why an edit was refused: one closed word for each reason."""

    # What is no patch.
    MISSING_SECTION_HEADER = "missing_section_header"
    BAD_SECTION_HEADER = "bad_section_header"
    NO_SECTIONS = "no_sections"
    CONFLICTING_TAGS = "conflicting_tags"
    MISSING_TAG = "missing_tag"
    ORPHAN_ROW = "orphan_row"
    FOREIGN_SYNTAX = "foreign_syntax"
    HEADER_WITHOUT_VERB = "header_without_verb"
    REPEATED_NUMBERED_ROW = "repeated_numbered_row"
    MINUS_ROWS = "minus_rows"
    PATCH_TOO_LARGE = "patch_too_large"
    # What is no hunk.
    RANGE_REVERSED = "range_reversed"
    RANGE_TOO_LARGE = "range_too_large"
    OVERLAP = "overlap"
    INSERT_WITHOUT_BODY = "insert_without_body"
    COLONLESS_WITH_BODY = "colonless_with_body"
    CUT_WITH_BODY = "cut_with_body"
    REGISTER_WITH_BODY = "register_with_body"
    REGISTER_WITH_COLON = "register_with_colon"
    SPAN_NEEDS_REGISTER = "span_needs_register"
    REM_WITH_EDITS = "rem_with_edits"
    FILE_OP_WITH_BODY = "file_op_with_body"
    MULTIPLE_FILE_OPS = "multiple_file_ops"
    MV_SAME_PATH = "mv_same_path"
    ONLY_RANGES = "only_ranges"
    # Files and paths.
    BAD_PATH = "bad_path"
    FILE_NOT_FOUND = "file_not_found"
    DUPLICATE_TARGET = "duplicate_target"
    DESTINATION_EXISTS = "destination_exists"
    FILE_TOO_LARGE = "file_too_large"
    NOT_TEXT = "not_text"
    # Registers.
    EMPTY_ANONYMOUS_REGISTER = "empty_anonymous_register"
    AMBIGUOUS_ANONYMOUS_REGISTER = "ambiguous_anonymous_register"
    EMPTY_NAMED_REGISTER_OVER_RANGE = "empty_named_register_over_range"
    REGISTERS_IN_INTERLEAVED_SECTIONS = "registers_in_interleaved_sections"
    REGISTERS_FULL = "registers_full"
    # Lines of the file.
    BLOCK_UNRESOLVED = "block_unresolved"
    BLOCK_SINGLE_LINE = "block_single_line"
    UNSEEN_LINES = "unseen_lines"
    LINE_OUT_OF_RANGE = "line_out_of_range"
    STALE = "stale"
    UNKNOWN_TAG = "unknown_tag"
    AMBIGUOUS_BOUNDARY_ECHO = "ambiguous_boundary_echo"
    AMBIGUOUS_BOUNDARY_PLACEMENT = "ambiguous_boundary_placement"
    NO_CHANGE = "no_change"
    NO_CHANGE_REPEATED = "no_change_repeated"


class Caution(StrEnum):
    """What was read or done otherwise than it was written: one closed word for each."""

    BARE_ROWS_ACCEPTED = "bare_rows_accepted"
    BULLET_ROWS_ACCEPTED = "bullet_rows_accepted"
    MINUS_ROWS_IGNORED = "minus_rows_ignored"
    NUMBERED_ROWS_AS_PUT = "numbered_rows_as_put"
    BARE_RANGE_AS_PUT = "bare_range_as_put"
    ELISION_IGNORED = "elision_ignored"
    CUT_COLON_IGNORED = "cut_colon_ignored"
    EMPTY_PUT_AS_DELETE = "empty_put_as_delete"
    OP_AS_BODY_ROW = "op_as_body_row"
    DUPLICATE_RANGE_LAST_WINS = "duplicate_range_last_wins"
    PATH_RECOVERED = "path_recovered"
    BLOCK_INSERT_AT_CLOSER = "block_insert_at_closer"
    BLOCK_INSERT_UNRESOLVED = "block_insert_unresolved"
    RECOVERED_EXTERNAL = "recovered_external"
    RECOVERED_SESSION = "recovered_session"
    RECOVERED_REMAPPED = "recovered_remapped"
    HEAD_TAIL_ON_STALE = "head_tail_on_stale"
    EMPTY_NAMED_REGISTER = "empty_named_register"
    INDENT_RESTORED = "indent_restored"
    INSERT_MOVED_OUT = "insert_moved_out"
    INSERT_MOVED_IN = "insert_moved_in"
    INSERT_ESCAPED_OPENER = "insert_escaped_opener"
    BOUNDARY_ECHO_DROPPED = "boundary_echo_dropped"
    BOUNDARY_REPAIRED = "boundary_repaired"
    SYNTAX_BROKEN = "syntax_broken"


CAUTIONS: dict[Caution, str] = {
    Caution.BARE_ROWS_ACCEPTED: "Body rows without '+' were taken as text; begin each with '+'.",
    Caution.BULLET_ROWS_ACCEPTED: "Rows that begin with '- ' were taken as list items, so as text.",
    Caution.MINUS_ROWS_IGNORED: "Rows that begin with '-' were ignored: a range says what goes.",
    Caution.NUMBERED_ROWS_AS_PUT: "'N:text' rows were read as replacements of those lines.",
    Caution.BARE_RANGE_AS_PUT: "A range without a verb was read as PUT.",
    Caution.ELISION_IGNORED: "A row that stands for lines left out was ignored.",
    Caution.CUT_COLON_IGNORED: "The colon after CUT was ignored: a cut has no body.",
    Caution.EMPTY_PUT_AS_DELETE: "A PUT over lines without a body deleted them; CUT says so.",
    Caution.OP_AS_BODY_ROW: "A body row looks like a hunk of its own; it was written as text.",
    Caution.DUPLICATE_RANGE_LAST_WINS: "Of hunks on exactly the same lines the last one counted.",
    Caution.PATH_RECOVERED: "There is no such file; the only file read under this tag was taken.",
    Caution.BLOCK_INSERT_AT_CLOSER: "The line only closes a block, so the rows went after it.",
    Caution.BLOCK_INSERT_UNRESOLVED: "No block begins on the line, so the rows went after it.",
    Caution.RECOVERED_EXTERNAL: "The file had changed elsewhere; the named lines were unchanged.",
    Caution.RECOVERED_SESSION: "The tag was an older one; the named lines were unchanged.",
    Caution.RECOVERED_REMAPPED: "The file had changed; the edit moved with its unchanged lines.",
    Caution.HEAD_TAIL_ON_STALE: "The file had changed; head and tail were taken as they are now.",
    Caution.EMPTY_NAMED_REGISTER: "A register of that name does not exist; nothing was pasted.",
    Caution.INDENT_RESTORED: "The indent that the body had lost was restored.",
    Caution.INSERT_MOVED_OUT: "The rows went behind the closing lines that follow, to their depth.",
    Caution.INSERT_MOVED_IN: "The rows went inside the block, in front of its closing line.",
    Caution.INSERT_ESCAPED_OPENER: "The rows went behind the construct that the line opens.",
    Caution.BOUNDARY_ECHO_DROPPED: "Body rows that repeat the lines beside the range were dropped.",
    Caution.BOUNDARY_REPAIRED: "A line at the edge of the range was kept, so that the file parses.",
    Caution.SYNTAX_BROKEN: "The file parsed before this edit and does not now.",
}


class Refusal(Exception):
    """An edit that may not be carried out; it names its rule, and file, row and line if known.

    `row` counts the rows of the section, 1 being the one after its header. `line` is a line of the
    file. `shown` holds file lines for the reader, already bounded.
    """

    def __init__(
        self,
        rule: Rule,
        sentence: str,
        *,
        path: str = "",
        row: int | None = None,
        line: int | None = None,
        shown: str = "",
    ) -> None:
        super().__init__(sentence[:MAX_SENTENCE])
        self.rule = rule
        self.sentence = sentence[:MAX_SENTENCE]
        self.path = path
        self.row = row
        self.line = line
        self.shown = shown

    def at(self, path: str) -> Refusal:
        """Name the file, where whoever refused could not know it."""
        self.path = self.path or path
        return self


def clip(text: str, most: int = 60) -> str:
    """Return a quotation short enough for a sentence, with nothing in it that could mislead."""
    return ascii(text if len(text) <= most else text[: most - 1] + "…")
