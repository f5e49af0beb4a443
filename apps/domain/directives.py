"""Which tool does a member's request name, and does it demand exactly that one?

A name that stands in the request earns its tool a place among the first that a model sees. The
strict forms, "must call X" and "use X exactly once", bind the one tool they name. Whatever is
negative, a question, a report of somebody's words, or about several tools binds nothing: a
preference is only ever a matter of order, so in doubt this reader prefers and does not bind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAX_PREFERRED: Final = 4
MAX_READ: Final = 20_000

_SENTENCE = re.compile(r"[^.!?\n;]*(?:\.(?=\S)[^.!?\n;]*)*[.!?\n;]?")
_CODE_BLOCK = re.compile(r"^(`{3,9}|~{3,9})[^\n]*\n.*?(?:^\1[^\n]*$|\Z)", re.M | re.S)
_QUOTED_LINE = re.compile(r"^[^\S\n]*>.*$", re.M)
_ADDRESS = re.compile(r"^\s*@[\w-]+[,:]?\s*")
_IN_MARKS = re.compile(r"[\"“”«»‘]([^\"“”«»‘’\n]*)[\"“”«»’]|(?<!\w)'([^'\n]*)'(?!\w)|`([^`\n]*)`")

_TOOL: Final = "\x01"
_NEGATIVE = re.compile(
    r"\b(?:not|never|no longer|without|avoid|except|instead of|rather than|cannot|neither|nor|"
    r"stop|skip|refrain|ignore|forbid\w*|prohibit\w*|unnecessary)\b|n['’]t\b",
    re.I,
)
_CLAUSE_END = re.compile(r"[,:—–]|\s-\s|\b(?:and|but|then)\b", re.I)
_TALK = re.compile(
    r"\b(?:why|whether|what|how|when|whenever|where|which|who|suppose|imagine|explain\w*|"
    r"describe\w*|discuss\w*|mean\w*|say|says|said|saying|claim\w*|told|wrote|writes|states?|"
    r"stated|docs|documentation|according|example|should|could|would|might|maybe|perhaps|"
    r"sometimes|usually|generally|always|either)\b",
    re.I,
)
_CONDITION = re.compile(r"\b(?:if|unless|until|in case|provided|depending)\b", re.I)
_BEFORE: Final = r"(?:^|[,:—–-]\s*|\b(?:you|and|then|also|please|but|so|here|now|first|must|to)\s+)"
_DEMANDS: Final = (
    re.compile(
        rf"{_BEFORE}must\s+(?:now\s+|first\s+|also\s+|please\s+)?call\s+(?:the\s+)?"
        rf"(?:tool\s+)?{_TOOL}",
        re.I,
    ),
    re.compile(
        rf"{_BEFORE}(?:use|call)\s+(?:the\s+)?(?:tool\s+)?{_TOOL}\s+(?:tool\s+)?"
        r"exactly\s+(?:once|one\s+time)\b",
        re.I,
    ),
)
_ALTERNATIVE = re.compile(rf"{_TOOL}\s*(?:tool\s*)?,?\s*(?:or|and/or)\b", re.I)


@dataclass(frozen=True, slots=True)
class Directive:
    """What a request asks for by name: one tool that must be called, and those to show first."""

    bound: str = ""
    preferred: tuple[str, ...] = ()


def read_directive(
    text: str,
    *,
    authorized: Iterable[str],
    hints: Mapping[str, Sequence[str]] | None = None,
    routed: str = "",
) -> Directive:
    """Read a member's request against the tools that the run holds; nothing is ever granted.

    `hints` are the words by which tools themselves say what they are for. A tool to which the
    server routed the run goes before anything that the member's words would prefer or bind.
    """
    names = frozenset(authorized)
    said = _plain(text)
    named = _named(said, names)
    preferred = list(named)
    for tool, phrases in (hints or {}).items():
        if tool in names and tool not in preferred and _hinted(said, phrases):
            preferred.append(tool)
    if routed in names:
        preferred = [routed, *(name for name in preferred if name != routed)]
        return Directive("", tuple(preferred[:MAX_PREFERRED]))
    bound = _bound(said, named)
    return Directive(bound, tuple(preferred[:MAX_PREFERRED]))


def _plain(text: str) -> str:
    """Return a request without what it only quotes: code blocks, quoted lines, others' sayings."""
    said = _CODE_BLOCK.sub("\n", text[:MAX_READ])
    said = _QUOTED_LINE.sub("", _ADDRESS.sub("", said))
    return _IN_MARKS.sub(_only_a_name, said)


def _only_a_name(found: re.Match[str]) -> str:
    """Keep a single word out of its marks; several are a saying, and nobody's demand."""
    inner = next(group for group in found.groups() if group is not None)
    return " a saying " if " " in inner.strip() else f" {inner} "


def _mention(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _named(said: str, names: Iterable[str]) -> list[str]:
    """Return the names that stand in a text, by where they first do."""
    places = ((found.start(), name) for name in names if (found := _mention(name).search(said)))
    return [name for _, name in sorted(places)]


def _hinted(said: str, phrases: Sequence[str]) -> bool:
    words = " ".join(said.casefold().split())
    return any(
        re.search(rf"(?<!\w){re.escape(' '.join(phrase.casefold().split()))}(?!\w)", words)
        for phrase in phrases
        if phrase.strip()
    )


def _bound(said: str, named: Sequence[str]) -> str:
    """Return the one tool that a request demands, if it names just one and nothing speaks against.

    One "do not" outweighs every "must".
    """
    if len(named) != 1:
        return ""
    name, demanded = named[0], False
    for found in _SENTENCE.finditer(said):
        sentence = found.group().strip()
        marked = " ".join(_mention(name).sub(_TOOL, sentence).split())
        if _TOOL not in marked:
            continue
        if _is_negative(marked):
            return ""
        demanded = demanded or (not sentence.endswith("?") and _is_demanded(marked))
    return name if demanded else ""


def _is_negative(marked: str) -> bool:
    before, _, after = marked.partition(_TOOL)
    return bool(_NEGATIVE.search(before) or _NEGATIVE.search(_CLAUSE_END.split(after, 1)[0]))


def _is_demanded(marked: str) -> bool:
    if _CONDITION.search(marked) or _ALTERNATIVE.search(marked):
        return False
    demands = (found for demand in _DEMANDS if (found := demand.search(marked)))
    return any(not _TALK.search(marked[: found.start()]) for found in demands)
