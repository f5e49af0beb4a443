"""Which passages of a small body of prose answer a question best?

Pages are cut at their headings, so that a hit leads to the right place of a page. Passages are
ranked by BM25: a rare word of the question counts more than a common one, a long passage less
than a short one, and a word in a heading more than one in the text below it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MAX_QUERY: Final = 400
MAX_PASSAGE: Final = 1_600
MAX_EXCERPT: Final = 600
MAX_RESULTS: Final = 5
PASSAGES_PER_PAGE: Final = 2

_K1: Final = 1.4
_B: Final = 0.7
_HEADING_WEIGHT: Final = 3
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*\Z")
_FENCE = re.compile(r"\s*(```|~~~)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_NOISE: Final = frozenset(
    _WORD.findall(
        "a an and are as at be but by can do does for from how i if in is it its me my no not of"
        " on or our so that the their them then there these they this to was we what when where"
        " which who why will with you your"
    )
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a page under one heading."""

    page: str
    title: str
    heading: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, how well, and the part of it that does."""

    passage: Passage
    score: float
    excerpt: str


def split_page(page: str, markdown: str) -> list[Passage]:
    """Cut a Markdown page into passages at its headings, and long ones at paragraphs."""
    passages: list[Passage] = []
    title = page
    heading = anchor = ""
    anchors: Counter[str] = Counter()
    for level, words, body in _sections(markdown):
        if level:
            heading = _plain(words)
            anchor = anchor_of(heading)
            anchors[anchor] += 1
            if anchors[anchor] > 1:
                anchor = f"{anchor}-{anchors[anchor] - 1}"
            if level == 1 and title == page:
                title, anchor = heading, ""
        passages.extend(
            Passage(page, title, heading or title, anchor, part) for part in _parts(body)
        )
    return passages


def anchor_of(heading: str) -> str:
    """Return the fragment by which a heading of a rendered page is reached."""
    kept = "".join(char for char in heading.casefold() if char.isalnum() or char in " -_")
    return re.sub(r"\s+", "-", kept.strip())


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are compared: folded, without plural and noise."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [_stem(word) for word in _WORD.findall(folded) if word not in _NOISE]


class Index:
    """Passages, ready to be asked. It never changes once it is made."""

    __slots__ = ("_average", "_counts", "_lengths", "_passages", "_rarity")

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages: Sequence[Passage] = tuple(passages)
        self._counts: list[Counter[str]] = []
        for passage in self._passages:
            counts = Counter(words_of(passage.text))
            for word in words_of(f"{passage.title} {passage.heading}"):
                counts[word] += _HEADING_WEIGHT
            self._counts.append(counts)
        self._lengths = [sum(counts.values()) or 1 for counts in self._counts]
        total = len(self._passages)
        self._average = sum(self._lengths) / total if total else 1.0
        holding = Counter(word for counts in self._counts for word in counts)
        self._rarity = {
            word: math.log(1 + (total - held + 0.5) / (held + 0.5))
            for word, held in holding.items()
        }

    def search(self, query: str, *, limit: int = MAX_RESULTS) -> list[Hit]:
        """Return the best passages, best first, few of one page; none where no word matches."""
        wanted = list(dict.fromkeys(words_of(query[:MAX_QUERY])))
        scored = [
            (score, index)
            for index in range(len(self._passages))
            if (score := self._score(index, wanted)) > 0
        ]
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        hits: list[Hit] = []
        of_page: Counter[str] = Counter()
        for score, index in scored:
            passage = self._passages[index]
            if of_page[passage.page] >= PASSAGES_PER_PAGE:
                continue
            of_page[passage.page] += 1
            hits.append(Hit(passage, score, _excerpt(passage.text, wanted)))
            if len(hits) >= min(limit, MAX_RESULTS):
                break
        return hits

    def _score(self, index: int, wanted: list[str]) -> float:
        counts = self._counts[index]
        weight = _K1 * (1 - _B + _B * self._lengths[index] / self._average)
        return sum(
            self._rarity[word] * counts[word] * (_K1 + 1) / (counts[word] + weight)
            for word in wanted
            if word in counts
        )


def _sections(markdown: str) -> Iterator[tuple[int, str, str]]:
    """Yield level, words and body of each heading; a heading inside a code fence is none."""
    level, words = 0, ""
    body: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found is None:
            body.append(line)
            continue
        if level or any(text.strip() for text in body):
            yield level, words, "\n".join(body).strip()
        level, words, body = len(found[1]), found[2], []
    if level or any(text.strip() for text in body):
        yield level, words, "\n".join(body).strip()


def _parts(body: str) -> Iterator[str]:
    """Yield a body whole, or cut between paragraphs; a giant paragraph is cut where it must."""
    part = ""
    for paragraph in body.split("\n\n"):
        for start in range(0, len(paragraph), MAX_PASSAGE):
            piece = paragraph[start : start + MAX_PASSAGE]
            if part and len(part) + len(piece) > MAX_PASSAGE:
                yield part
                part = ""
            part = f"{part}\n\n{piece}" if part else piece
    if part.strip():
        yield part


def _excerpt(text: str, wanted: list[str]) -> str:
    """Return the stretch of whole sentences that holds most of the wanted words."""
    if len(text) <= MAX_EXCERPT:
        return text
    sentences = [one for one in _SENTENCE_END.split(text) if one.strip()]
    found = [len(set(words_of(one)) & set(wanted)) for one in sentences]
    start = found.index(max(found))
    taken = sentences[start][:MAX_EXCERPT]
    for sentence in sentences[start + 1 :]:
        if len(taken) + len(sentence) + 1 > MAX_EXCERPT - 4:
            break
        taken = f"{taken} {sentence}"
    return f"{'… ' if start else ''}{taken}"[:MAX_EXCERPT]


def _plain(words: str) -> str:
    """Return a heading without its Markdown marks."""
    return re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", words).strip()


def _stem(word: str) -> str:
    """Return a word without the commonest English endings, so that `closing` finds `closed`."""
    for ending, rest in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + rest
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
