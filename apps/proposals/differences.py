"""How do two file trees differ, line by line, in a form that a reviewer can trust?

What a browser would hide is made visible: controls, invisible characters and those that turn
the direction of text. Work is bounded; what is not drawn here is named, with its digest.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice

from apps.domain.canonical import digest_bytes

CONTEXT = 3
MAX_LINE = 600
MAX_COMPARED_LINES = 5_000
ROW_BUDGET = 3_000
EFFORT = 4_000_000
"""How many pairs of alike lines or words one page may look at; about a second of work."""
_MAX_INLINE = 400
# Everything but plain ASCII text; only these characters are looked at one by one.
_UNUSUAL = re.compile(r"[^\t\n\r\x20-\x7e]")
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line; `mark` says that it differs, `odd` that it hides something."""

    text: str
    mark: bool = False
    odd: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a row."""

    number: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of a side-by-side view; a gap stands for unchanged lines."""

    kind: str
    left: Side | None = None
    right: Side | None = None
    skipped: int = 0


@dataclass(slots=True)
class FileDiff:
    """One file before and after."""

    path: str
    status: str
    added: int = 0
    removed: int = 0
    before_digest: str = ""
    after_digest: str = ""
    before_size: int = 0
    after_size: int = 0
    note: str = ""
    odd: bool = False
    rows: list[DiffRow] = field(default_factory=list)


@dataclass(slots=True)
class _Effort:
    """What is left of the work that one page may cost."""

    left: int = EFFORT

    def spend(self, pairs: int) -> bool:
        """Take from what is left, if there is enough."""
        if pairs > self.left:
            return False
        self.left -= pairs
        return True


class _Matcher(difflib.SequenceMatcher[str]):
    """The library's comparison under a bound; past it, what is left counts as replaced.

    Alone it takes minutes for a few hundred lines of a hostile author, such as many equal ones.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str], effort: _Effort) -> None:
        super().__init__(None, old, new, autojunk=False)
        self.old, self.new, self._effort = old, new, effort
        # The search looks at every place in `new` of every item in its stretch of `old`.
        places = Counter(new)
        self._pairs = [0, *accumulate(places[item] + 1 for item in old)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        """Search, or find nothing where the search would cost too much."""
        end = len(self.old) if ahi is None else ahi
        if not self._effort.spend(self._pairs[end] - self._pairs[alo]):
            return difflib.Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


def compare_trees(
    before: Mapping[str, bytes], after: Mapping[str, bytes], *, budget: int = ROW_BUDGET
) -> list[FileDiff]:
    """Compare two trees, changed files first; at most `budget` rows are drawn in all."""
    effort = _Effort()
    files: list[FileDiff] = []
    for path in sorted(
        before.keys() | after.keys(), key=lambda path: (before.get(path) == after.get(path), path)
    ):
        file = _compare_file(path, before.get(path), after.get(path), effort, budget)
        budget -= len(file.rows)
        files.append(file)
    return files


def compare_texts(before: str, after: str) -> list[DiffRow]:
    """Compare two texts line by line; a page may hold many such pairs, so each costs little."""
    effort = _Effort(EFFORT // 32)
    return list(_rows(_Matcher(_lines(before), _lines(after), effort), effort))


def _compare_file(
    path: str, before: bytes | None, after: bytes | None, effort: _Effort, budget: int
) -> FileDiff:
    file = FileDiff(
        path=path,
        status=_status(before, after),
        before_digest=digest_bytes(before) if before is not None else "",
        after_digest=digest_bytes(after) if after is not None else "",
        before_size=len(before or b""),
        after_size=len(after or b""),
    )
    if file.status == "same":
        return file
    texts = _text(before), _text(after)
    if texts[0] is None or texts[1] is None:
        file.note = "Not text. Compare by size and digest, or open the file."
        return file
    old, new = _lines(texts[0]), _lines(texts[1])
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        file.note = f"More than {MAX_COMPARED_LINES:,} lines. Open the file to read it."
        return file
    matcher = _Matcher(old, new, effort)
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    file.removed = sum(end - start for _, start, end, _, _ in changed)
    file.added = sum(end - start for _, _, _, start, end in changed)
    # No more rows than are drawn: each costs a comparison of its own.
    file.rows = list(islice(_rows(matcher, effort), budget + 1))
    file.odd = any(_hidden(char) for text in texts for char in _UNUSUAL.findall(text or ""))
    if not changed:
        file.note = "Only the line ends differ."
    elif len(file.rows) > budget:
        file.rows = []
        file.note = "Not drawn here, for its length. Open the file to read it."
    return file


def _status(before: bytes | None, after: bytes | None) -> str:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "same" if before == after else "changed"


def _text(raw: bytes | None) -> str | None:
    if raw is None:
        return ""
    if b"\x00" in raw:
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    """Return the lines of a text; only a line feed ends one, so that nothing else hides an end."""
    return text.removesuffix("\n").split("\n") if text else []


def _rows(matcher: _Matcher, effort: _Effort) -> Iterator[DiffRow]:
    old, new = matcher.old, matcher.new
    groups = list(matcher.get_grouped_opcodes(CONTEXT))
    at = 0
    for group in groups:
        start = group[0][1]
        if start > at:
            yield DiffRow("gap", skipped=start - at)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                for offset in range(i2 - i1):
                    yield DiffRow(
                        "same",
                        Side(i1 + offset + 1, _plain(old[i1 + offset])),
                        Side(j1 + offset + 1, _plain(new[j1 + offset])),
                    )
            else:
                yield from _changed_rows(old[i1:i2], new[j1:j2], i1, j1, effort)
        at = group[-1][2]
    if groups and at < len(old):
        yield DiffRow("gap", skipped=len(old) - at)


def _changed_rows(
    old: Sequence[str], new: Sequence[str], i: int, j: int, effort: _Effort
) -> Iterator[DiffRow]:
    for offset in range(max(len(old), len(new))):
        left = old[offset] if offset < len(old) else None
        right = new[offset] if offset < len(new) else None
        if left is not None and right is not None:
            first, second = _inline(left, right, effort)
            yield DiffRow("changed", Side(i + offset + 1, first), Side(j + offset + 1, second))
        elif right is not None:
            yield DiffRow("added", None, Side(j + offset + 1, _plain(right)))
        elif left is not None:
            yield DiffRow("removed", Side(i + offset + 1, _plain(left)), None)


def _inline(left: str, right: str, effort: _Effort) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Mark the words that differ, where the two lines have enough in common."""
    if max(len(left), len(right)) > _MAX_INLINE:
        return _plain(left), _plain(right)
    old, new = _TOKEN.findall(left), _TOKEN.findall(right)
    matcher = _Matcher(old, new, effort)
    if matcher.ratio() < 0.3:
        return _plain(left), _plain(right)
    first: list[Piece] = []
    second: list[Piece] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        first.extend(_plain("".join(old[i1:i2]), mark=tag != "equal"))
        second.extend(_plain("".join(new[j1:j2]), mark=tag != "equal"))
    return tuple(first), tuple(second)


def _plain(line: str, *, mark: bool = False) -> tuple[Piece, ...]:
    """Return a line in pieces, cut at its bound, with what hides spelled out."""
    shown = line[:MAX_LINE]
    pieces: list[Piece] = []
    start = 0
    for index, char in enumerate(shown):
        if char == "\r" or _hidden(char):
            if index > start:
                pieces.append(Piece(shown[start:index], mark))
            word = "␍" if char == "\r" else f"⟨U+{ord(char):04X}⟩"
            pieces.append(Piece(word, mark, odd=True))
            start = index + 1
    if start < len(shown):
        pieces.append(Piece(shown[start:], mark))
    if len(line) > MAX_LINE:
        pieces.append(Piece(f" … {len(line) - MAX_LINE:,} more characters", odd=True))
    return tuple(pieces)


def _hidden(char: str) -> bool:
    """Tell whether a browser shows a character as nothing, or lets it turn its neighbours."""
    if char in "\t\n\r" or (char.isascii() and char.isprintable()):
        return False
    return unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs"}
