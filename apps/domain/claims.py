"""Where does a text claim that something was done? A reader of plain English claims of success."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_READ: Final = 40_000

_WORD: Final = re.compile(r"[a-z]+")
_KINDS: Final = {
    "make": "create creates created make makes made write writes wrote written draft drafted "
    "generate generated produce produced build built prepare prepared compose composed add added",
    "save": "save saves saved store stored record recorded file filed upload uploaded",
    "change": "update updates updated edit edited change changed modify modified revise revised "
    "improve improved replace replaced fix fixed correct corrected rename renamed rewrite rewrote "
    "rewritten append appended extend extended adjust adjusted move moved apply applied",
    "remove": "delete deletes deleted remove removes removed erase erased discard discarded "
    "cancel cancelled canceled clear cleared",
    "send": "send sends sent email emailed mail mailed post posted publish published deliver "
    "delivered share shared submit submitted forward forwarded notify notified invite invited",
    "do": "schedule scheduled book booked order ordered pay paid transfer transferred deploy "
    "deployed run ran execute executed install installed start started register registered "
    "set complete completed finish finished do done",
}
_KIND_OF: Final = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_THINGS: Final = frozenset(
    _WORD.findall(
        "artifact artifacts file files document documents report reports letter letters email "
        "emails mail mails message messages page pages task tasks ticket tickets reminder "
        "reminders event events meeting meetings invitation calendar entry entries folder "
        "room package record records version note notes spreadsheet presentation slides deck "
        "pdf image website post order payment booking database table row library collection "
        "issue account"
    )
)
# What an answer can also just contain is a thing only where it was saved, sent or the like.
_SAYABLE: Final = frozenset(
    _WORD.findall(
        "report reports letter letters email emails mail message messages note notes table "
        "page post version entry entries record records document presentation slides deck"
    )
)

_PAST: Final = (
    "created|made|written|wrote|drafted|generated|produced|built|prepared|composed|added|saved|"
    "stored|recorded|filed|uploaded|updated|edited|changed|modified|revised|improved|replaced|"
    "fixed|corrected|renamed|rewrote|rewritten|appended|extended|adjusted|moved|applied|deleted|"
    "removed|erased|discarded|cancell?ed|cleared|sent|emailed|mailed|posted|published|delivered|"
    "shared|submitted|forwarded|notified|invited|scheduled|booked|ordered|paid|transferred|"
    "deployed|ran|run|executed|installed|started|registered|completed|finished|done|set up"
)
_ADVERB: Final = (
    r"(?:(?:now|just|also|already|all|both|successfully|duly|finally|indeed|then|since|fully|been|"
    r"gone ahead and|safely)\s+)*"
)
_CLAIM: Final = re.compile(
    rf"\b(?:I|we)(?:['’]ve|\s+have|\s+did)?\s+{_ADVERB}(?P<a>{_PAST})\b"
    rf"|\b(?:has|have|is|are|was|were|['’]s|['’]ve)\s+{_ADVERB}(?P<b>{_PAST})\b"
    rf"|^(?:successfully\s+|just\s+|and\s+|ok(?:ay)?[,.]?\s+)*(?P<c>{_PAST})\b"
    rf"|\bsuccessfully\s+(?P<d>{_PAST})\b|\b(?P<e>{_PAST})\s+successfully\b"
    r"|^(?P<f>all set|all done|that['’]s done|it['’]s done|mission accomplished|success)\b"
    r"|\b(?:is|are)\s+(?:now\s+|already\s+)*(?P<g>ready|live|available|in place|on (?:its|their)"
    r" way|online)\b"
    r"|\b(?:you(?:['’]ll| can| will)\s+(?:now\s+)?find)\s+(?P<h>it|them|the|your|this)\b"
    r"|\b(?P<i>went (?:through|out)|was a success|were successful|was successful)\b",
    re.I,
)
_DENIES: Final = re.compile(
    r"\b(?:not|never|no|none|nothing|nobody|unable|cannot|fail\w*|without success|denied|deny|"
    r"refus\w*|declin\w*|reject\w*|errors?|unsuccess\w*|instead|would|could|should|will|shall|"
    r"going to|about to|to be|want\w*|need\w*|plan\w*|try|tried|trying|attempt\w*|let me|may|"
    r"might|must|can|assum\w*|pretend\w*|suppos\w*|example|imagine|was to|were to|hop\w+|almost|"
    r"nearly|unless|whether|partly|partially|unknown|unclear|uncertain)\b|n['’]t\b",
    re.I,
)
_CONDITION: Final = re.compile(
    r"\b(?:if|when|whenever|once|until|unless|before|as soon as|in case)\b", re.I
)
_OF_A_TIME: Final = re.compile(r"^\W*(?:and\s+|but\s+|so\s+)?(?:after|while|since|because)\b", re.I)
_OF_OTHERS: Final = re.compile(
    r"\b(?:by|from)\s+(?:you|him|her|them|the (?:user|author|member|team|company)|[A-Z]\w+)\b"
    r"|\b(?:made|built|written|composed|produced)\s+(?:up\s+)?(?:of|in|with|from|for|as)\b"
)
_LONG_AGO: Final = re.compile(
    r"\b(?:yesterday|ago|earlier|previous\w*|originally|formerly|last (?:time|week|month|year|"
    r"night|turn)|(?:in|since|on|by|until) (?:\d|jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct|nov|"
    r"dec|mon|tues|wednes|thurs|fri|satur|sun)\w*|in the (?:past|\d+)|before this|back then|"
    r"existing|at the time)\b",
    re.I,
)
_IN_CHAT: Final = re.compile(
    r"\b(?:below|above|following|here|in (?:this|the) (?:chat|message|answer|reply|conversation)|"
    r"for you to copy|as text)\b|:\s*$",
    re.I,
)
_FRESH: Final = re.compile(r"\b(?:just|now)\b", re.I)
_ADMITS: Final = re.compile(
    r"\b(?:fail\w*|could not|cannot|can ?not|unable|was not|were not|is not|has not|have not|did "
    r"not|denied|refused|rejected|declined|not (?:been )?(?:saved|created|sent|made|changed|"
    r"done|approved|allowed|possible|available)|no (?:longer|change)|nothing (?:was|has)|error|"
    r"errors|unknown|unsuccessful\w*|blocked|went wrong|said no|without success|timed out|ran "
    r"out of time|incomplete|stopped)\b|n['’]t\b",
    re.I,
)
_SENTENCE: Final = re.compile(r"[^.!?\n]*(?:[.!?](?!\s|$|[\"”)*_])[^.!?\n]*)*[.!?]*[\"”)*_]*")
_CLAUSE: Final = re.compile(r"[;—–]|,\s|\s-\s|\s(?=(?:but|so|and|though|although|because)\s)")
_MARKS: Final = re.compile(r"^[\s>*_#\-+\d.)✅✔️☑🎉]+|[*_]{1,3}")
_QUOTED: Final = re.compile(r"[\"“”«»]([^\"“”«»\n]*)[\"“”«»]|`[^`\n]*`")
_BLOCK: Final = re.compile(
    r"^(`{3,9}|~{3,9})[^\n]*\n.*?(?:^\1[^\n]*$|\Z)|^[^\S\n]*>[^\n]*$", re.M | re.S
)
_ENGLISH: Final = frozenset(
    _WORD.findall(
        "the a an is are was were be been i you he she it we they this that these those of to "
        "in on for with and or not have has had do does did will would can could my your here "
        "there done saved sent all set what which from by as at but so if then now ok okay "
        "yes no"
    )
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that says something was done: where it stands, and what it is about."""

    start: int
    end: int
    kinds: frozenset[str]
    things: frozenset[str]
    is_fresh: bool
    names_a_thing: bool


def claims_in(text: str) -> list[Claim]:
    """Return the sentences of a text that claim a success, without those that only quote one."""
    blocks = [found.span() for found in _BLOCK.finditer(text[:MAX_READ])]
    return [
        claim
        for start, end in _sentences(text[:MAX_READ])
        if not _is_within(start, blocks) and (claim := _claim(text, start, end)) is not None
    ]


def admits_failure(text: str) -> bool:
    """Tell whether a text says anywhere that something did not work."""
    return bool(_ADMITS.search(text[:MAX_READ]))


def reads_english(text: str) -> bool:
    """Tell whether a text is in the language whose claims are known here."""
    words = _WORD.findall(text[:MAX_READ].casefold())
    return not words or sum(word in _ENGLISH for word in words) * 8 >= len(words)


def words_of(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the kinds of doing and the things that a tool's own words speak of."""
    words = _WORD.findall(name.casefold().replace("_", " "))
    kinds = frozenset(_KIND_OF[word] for word in words if word in _KIND_OF)
    return kinds, frozenset(_singular(word) for word in words if word in _THINGS)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    for found in _SENTENCE.finditer(text):
        if found.group().strip():
            yield found.span()


def _is_within(place: int, blocks: list[tuple[int, int]]) -> bool:
    """Tell whether a place lies in one of the blocks, which come in order and never overlap."""
    before = bisect_right(blocks, place, key=lambda block: block[0])
    return before > 0 and place < blocks[before - 1][1]


def _claim(text: str, start: int, end: int) -> Claim | None:
    sentence = _QUOTED.sub(_blank, text[start:end])
    if sentence.rstrip().endswith("?"):
        return None
    conditional = False
    for clause in _CLAUSE.split(_MARKS.sub("", sentence)):
        clause = clause.strip()
        found = _CLAIM.search(clause)
        # What a condition stands before has not happened, in this clause or the next.
        conditional = conditional or bool(
            _CONDITION.search(clause[: found.start()] if found else clause)
        )
        if found is None or conditional or _is_harmless(clause, found):
            continue
        verb = next((word for word in found.groups() if word), "").casefold()
        words = _WORD.findall(sentence.casefold())
        things = frozenset(_singular(word) for word in words if word in _THINGS)
        kind = _KIND_OF.get(verb)
        return Claim(
            start=start,
            end=end,
            kinds=frozenset({kind} if kind and kind != "do" else ()),
            things=things,
            is_fresh=bool(_FRESH.search(clause)),
            names_a_thing=_names_a_thing(sentence, clause, found, kind, words),
        )
    return None


def _is_harmless(clause: str, found: re.Match[str]) -> bool:
    """Tell whether a clause only sounds like a claim: denied, wished, of others, of long ago."""
    around = f"{clause[: found.start()]} {clause[found.end() :]}"
    return bool(
        _DENIES.search(around)
        or _OF_A_TIME.search(clause)
        or _LONG_AGO.search(clause)
        or _OF_OTHERS.search(clause[found.start() :])
    )


def _names_a_thing(
    sentence: str, clause: str, found: re.Match[str], kind: str | None, words: list[str]
) -> bool:
    """Tell whether a claim is of a lasting thing, and by the one who speaks.

    Where no write was even tried, an answer's own words are easily taken for one: it may well have
    written a summary, right there.
    """
    if found.group("a") is None and not re.search(r"\bsuccessfully\b", clause, re.I):
        return False
    if kind in (None, "do") or _IN_CHAT.search(sentence):
        return False
    named = {word for word in words if word in _THINGS}
    return bool(named - _SAYABLE) if kind in ("make", "change", "remove") else bool(named)


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and word[:-1] in _THINGS else word


def _blank(found: re.Match[str]) -> str:
    return " " * len(found.group())
