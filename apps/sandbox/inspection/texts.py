"""Is this text, and does it have the structure that its name promises?"""

from __future__ import annotations

import csv
import io
import json
from typing import Final

from .findings import MAX_ROWS, Drawing, Unfit, count

MAX_DEPTH: Final = 100
_SOURCE: Final = 20_000


def decoded(content: bytes) -> str:
    """Return the text of UTF-8 bytes; whatever cannot stand in a text is refused."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unfit("It is not text in UTF-8.") from None
    if "\0" in text:
        raise Unfit("It holds NUL characters, which no text has.")
    return text


def text(content: bytes, drawing: Drawing) -> str:
    """Check plain text and source code."""
    said = decoded(content)
    drawing.summary = f"Text of {count(said.count(chr(10)) + 1, 'line')}."
    drawing.text(said, "source", _SOURCE)
    return "text/plain"


def markdown(content: bytes, drawing: Drawing) -> str:
    """Check a Markdown text."""
    text(content, drawing)
    return "text/markdown"


def table(content: bytes, drawing: Drawing) -> str:
    """Check a table of separated values."""
    said = decoded(content)
    separator = "\t" if said.count("\t") > said.count(",") else ","
    csv.field_size_limit(1_000_000)
    rows = 0
    shown: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(said, newline=""), delimiter=separator, strict=True):
            rows += 1
            if len(shown) < MAX_ROWS:
                shown.append(row)
    except csv.Error as problem:
        raise Unfit(f"Row {rows + 1} is not readable: {problem}.") from None
    drawing.summary = f"A table of {count(rows, 'row')}."
    drawing.cut = rows > MAX_ROWS
    drawing.table(shown)
    return "text/tab-separated-values" if separator == "\t" else "text/csv"


def data(content: bytes, drawing: Drawing) -> str:
    """Check one JSON value."""
    said = decoded(content)
    _value(said, "It")
    drawing.summary = "A JSON value."
    drawing.text(said, "source", _SOURCE)
    return "application/json"


def rows_of_data(content: bytes, drawing: Drawing) -> str:
    """Check one JSON value a line."""
    lines = [line for line in decoded(content).split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        _value(line, f"Line {number}")
    drawing.summary = f"{count(len(lines), 'JSON value')}."
    drawing.text("\n".join(lines[:MAX_ROWS]), "source", _SOURCE)
    return "application/x-ndjson"


def _value(said: str, what: str) -> None:
    _shallow(said, what)
    try:
        json.loads(said, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise Unfit(f"{what} is not JSON: {str(problem)[:200]}.") from None


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _shallow(said: str, what: str) -> None:
    """Count the nesting before any parser does."""
    depth, inside, escaped = 0, False, False
    for one in said:
        if inside:
            if escaped:
                escaped = False
            elif one == "\\":
                escaped = True
            elif one == '"':
                inside = False
        elif one == '"':
            inside = True
        elif one in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Unfit(f"{what} is nested more than {MAX_DEPTH} levels deep.")
        elif one in "]}":
            depth -= 1
