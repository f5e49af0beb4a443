"""What text do the rows below a hunk header stand for?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from apps.domain.hashline.refusals import Caution, Refusal, Rule
from apps.domain.hashline.rows import read_header
from apps.domain.hashline.text import is_blank

_BULLET = re.compile(r"[ \t]*- (?! )")
_PREFIX = re.compile(r"[ \t]*(?:>>|[-+*])?[ \t]*[1-9][0-9]{0,15}[:|]")
# A pasted mapping such as `1: "one",` looks like a pasted read, and must stay as it is.
_VALUE = re.compile(r"""[ \t]*(?:"[^"]*"|'[^']*'|-?[0-9]+(?:\.[0-9]+)?)[ \t]*(?:,[ \t]*)?""")


def settle_body(
    rows: Sequence[str], *, path: str, row: int
) -> tuple[tuple[str, ...], list[Caution]]:
    """Return the text of a body, with what had to be tolerated to read it, or refuse it.

    `row` is where the hunk begins; it is named when the body cannot be read.
    """
    rows = _without_blank_edges(rows)
    cautions: list[Caution] = []
    minus = [entry for entry in rows if entry.startswith("-")]
    plus = [entry for entry in rows if entry.startswith("+")]
    drop_minus = False
    if minus:
        caution = _judge_minus(minus, plus, path=path, row=row)
        cautions.append(caution)
        drop_minus = caution is Caution.MINUS_ROWS_IGNORED
    bare = [entry for entry in rows if not entry.startswith(("+", "-")) and not is_blank(entry)]
    prefixed = bool(bare) and _all_from_a_read(bare)
    if bare:
        cautions.append(Caution.BARE_ROWS_ACCEPTED)
    text: list[str] = []
    for entry in rows:
        if entry.startswith("+"):
            text.append(entry[1:])
            if read_header(entry[1:]) is not None:
                cautions.append(Caution.OP_AS_BODY_ROW)
        elif entry.startswith("-"):
            if not drop_minus:
                text.append(entry)
        elif prefixed and (match := _PREFIX.match(entry)) is not None:
            text.append(entry[match.end() :])
        else:
            text.append(entry)
    return tuple(text), cautions


def _without_blank_edges(rows: Sequence[str]) -> Sequence[str]:
    first, last = 0, len(rows)
    while first < last and is_blank(rows[first]):
        first += 1
    while last > first and is_blank(rows[last - 1]):
        last -= 1
    return rows[first:last]


def _judge_minus(minus: list[str], plus: list[str], *, path: str, row: int) -> Caution:
    bullets = all(_BULLET.match(entry) for entry in minus)
    if not bullets and plus:
        return Caution.MINUS_ROWS_IGNORED
    if bullets and (not plus or any(_BULLET.match(entry[1:]) for entry in plus)):
        return Caution.BULLET_ROWS_ACCEPTED
    raise Refusal(
        Rule.MINUS_ROWS,
        "Rows that begin with '-' are not part of the language: the range says which lines go."
        " For text that begins with '-', write '+-'.",
        path=path,
        row=row,
    )


def _all_from_a_read(bare: list[str]) -> bool:
    matches = [(_PREFIX.match(entry), entry) for entry in bare]
    if not all(match for match, _ in matches):
        return False
    rests = [entry[match.end() :] for match, entry in matches if match]
    return not all(_VALUE.fullmatch(rest) for rest in rests)
