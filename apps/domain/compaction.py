"""What stands for older steps of a turn, once a conversation has grown too long?

A summary made from the record alone, the same each time it is made: every call with its outcome
and reason, what it made, who said yes or no, and what the model promised and has not done.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apps.domain.seeing import TOKENS_PER_IMAGE, images_in

MAX_SUMMARY: Final = 24_000
MAX_LINE: Final = 420
_MAX_SAID: Final = 240
_MAX_PROMISES: Final = 20

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_PROMISE = re.compile(
    r"\b(?:I['’]ll|I will|I am going to|I['’]m going to|next,? I|then I|after that,? I|let me|"
    r"I still (?:have|need) to|remaining|to ?do\b|I promise|we['’]ll|we will)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call of a step, with what of it must not be forgotten."""

    place: str
    tool: str
    outcome: str
    reason: str = ""
    approval: str = ""
    kept: tuple[str, ...] = ()
    arguments: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class PastStep:
    """What a model said in one step, and what came of its calls."""

    number: int
    said: str = ""
    calls: tuple[PastCall, ...] = field(default=())


def estimate(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()) -> int:
    """Return about how many tokens a request has: a quarter of its bytes, never far too few."""
    return images_in(messages) * TOKENS_PER_IMAGE + sum(
        (len(json.dumps(part, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 3) // 4
        for part in (*messages, *tools)
    )


def summarize(steps: Sequence[PastStep], *, most: int = MAX_SUMMARY) -> str:
    """Return the summary of steps: all outcomes, and as much of the rest as there is room for."""
    promises = _promises(steps)
    tail = ["Said but not known to be done:", *promises] if promises else []
    head = f"Steps 1 to {steps[-1].number} of this turn, from Kaizen's record:" if steps else ""
    for detail in (2, 1, 0):
        lines = [line for step in steps for line in _lines(step, detail)]
        text = "\n".join([head, *lines, *tail])
        if len(text) <= most:
            return text
    # Outcomes and ids alone are still too many: the oldest give way, and that is said.
    lines = [line for step in steps for line in _lines(step, 0)]
    while lines and len("\n".join([head, *lines, *tail])) > most - 80:
        lines.pop(0)
    left_out = sum(len(step.calls) for step in steps) - len(lines)
    return "\n".join([head, f"- ({left_out} older calls are not listed here)", *lines, *tail])


def _lines(step: PastStep, detail: int) -> list[str]:
    lines = []
    if detail and step.said.strip():
        lines.append(f"- step {step.number}, you said: {_clip(step.said, _MAX_SAID)}")
    lines += [f"- {_call(call, detail)}" for call in step.calls]
    return lines


def _call(call: PastCall, detail: int) -> str:
    words = [f"call {call.place} {call.tool}: {call.outcome}"]
    if call.reason:
        words.append(f"reason {call.reason}")
    if call.approval:
        words.append(call.approval)
    if call.kept:
        words.append(f"kept {', '.join(call.kept[:8])}")
    if detail > 1 and call.arguments:
        words.append(f"arguments {_clip(call.arguments, 120)}")
    if detail > 1 and call.result:
        words.append(f"result {_clip(call.result, 200)}")
    return _clip("; ".join(words), MAX_LINE)


def _promises(steps: Sequence[PastStep]) -> list[str]:
    found: list[str] = []
    for step in steps:
        for sentence in _SENTENCE.findall(step.said):
            if _PROMISE.search(sentence):
                found.append(f"- step {step.number}: {_clip(sentence, 200)}")
    return found[-_MAX_PROMISES:]


def _clip(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
