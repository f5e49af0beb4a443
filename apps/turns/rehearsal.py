"""How does Kaizen show itself where no model is set up? A deterministic stand-in, plainly no AI.

It plays the part of a model on the real path: it streams text and arguments piece by piece and
proposes calls that cross the boundary like any other. A message steers it:

* each line `/call TOOL {json}` becomes one call, one after the other; inside the JSON text,
  `{{result}}` stands for the text of the last call's result;
* a line `/with TOOL {json}` becomes a call that is asked for together with the one before it;
* any other message gets a short scripted turn: where it asks for something to be written, a
  markdown artifact, otherwise an explanation.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from apps.domain.outside import unwrap
from apps.turns.context import KAIZEN_SAYS
from apps.turns.provider import ArgumentsDelta, CallStarted, Delta, TextDelta, Usage

PIECE = 24
PAUSE_SECONDS = 0.012

# Whatever follows the name goes to the boundary as it stands, which says what is wrong with it.
_CALL = re.compile(r"^\s*/(call|with)\s+(\S{1,64})(.*)$")
_WRITING = re.compile(r"\b(write|draft|create|make|note|report|summar\w+|plan|letter)\b", re.I)

_NO_AI = "*Rehearsal model: a script, no AI.*"
_ABOUT = (
    "I show how Kaizen works without a model key.\n\n"
    "Ask me to write something and I draft an artifact, or steer me exactly with lines such as\n\n"
    '`/call create_artifact {"title": "Hello", "kind": "markdown", "body": "# Hello"}`\n\n' + _NO_AI
)


class RehearsalModel:
    """A scripted stand-in for a model, the same for the same conversation."""

    def stream(
        self,
        *,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        stopped: Callable[[], bool],
    ) -> Iterator[Delta]:
        """Yield the next step of the script that the last message asks for."""
        # A script takes no tokens of anybody's.
        yield Usage(tokens_in=0, tokens_out=0)
        asked, results = _since_last_request(messages)
        script = _script(asked, {tool["function"]["name"] for tool in tools})
        done = 0
        for step in script:
            if done >= len(results):
                yield from _calls(step, results, stopped)
                return
            done += len(step)
        yield from _pieces(_closing_words(script, results), stopped)

    def hang_up(self) -> None:
        """There is nobody at the other end."""


def _calls(
    step: list[tuple[str, str]], results: list[dict[str, Any]], stopped: Callable[[], bool]
) -> Iterator[Delta]:
    for place, (name, arguments) in enumerate(step):
        text = arguments.replace("{{result}}", _inside_json(_text_of_last(results)))
        yield CallStarted(place, f"rehearsal-{len(results) + place + 1}", name)
        for piece in _pieces(text, stopped):
            yield ArgumentsDelta(place, piece.text)


def _since_last_request(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the last user message and the results of the calls that followed it."""
    asked = ""
    results: list[dict[str, Any]] = []
    for message in messages:
        # Only Kaizen's own messages have parts: they carry images, which a script does not see.
        if message["role"] == "user" and isinstance(message["content"], str):
            if not message["content"].startswith(KAIZEN_SAYS):
                asked, results = message["content"], []
        elif message["role"] == "tool":
            results.append(json.loads(unwrap(message["content"])))
    return asked, results


def _script(asked: str, offered: set[str]) -> list[list[tuple[str, str]]]:
    """Return the steps of the script, each with the calls that it asks for together."""
    steps: list[list[tuple[str, str]]] = []
    for match in (match for line in asked.splitlines() if (match := _CALL.match(line))):
        call = match.group(2), match.group(3).strip() or "{}"
        if match.group(1) == "with" and steps:
            steps[-1].append(call)
        else:
            steps.append([call])
    if steps:
        return steps
    if _WRITING.search(asked) and "create_artifact" in offered:
        return [[("create_artifact", json.dumps(_draft(asked), ensure_ascii=False))]]
    return []


def _draft(asked: str) -> dict[str, str]:
    request = " ".join(asked.split())
    quoted = "\n".join(f"> {line}" for line in asked.strip().splitlines())
    body = (
        f"# A first draft\n\nThis was asked for:\n\n{quoted}\n\n"
        "## What happens here\n\n"
        "You are watching arguments of a tool call while they are being written. The artifact gets"
        " its id and its first version only when the whole call has arrived, has been decided, and"
        " has been saved in one transaction.\n\n"
        "| step | what it does |\n| --- | --- |\n"
        "| decide | asks the policy with facts read now |\n"
        "| consume | takes the call exactly once |\n"
        "| record | writes one outcome and one audit row |\n\n"
        "The rehearsal model wrote this text. It is a script, no AI.\n"
    )
    return {"title": request[:60] or "A first draft", "kind": "markdown", "body": body}


def _text_of_last(results: list[dict[str, Any]]) -> str:
    if not results:
        return ""
    value = results[-1].get("value", results[-1].get("message", ""))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _inside_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _closing_words(script: list[list[tuple[str, str]]], results: list[dict[str, Any]]) -> str:
    if not script:
        return _ABOUT
    lines = []
    calls = [call for step in script for call in step]
    for (name, _), result in zip(calls, results, strict=False):
        said = "done" if result.get("outcome") == "ok" else result.get("message", "not done")
        lines.append(f"- `{name}`: {said}")
    return "Here is what came of it:\n\n" + "\n".join(lines) + f"\n\n{_NO_AI}"


def _pieces(text: str, stopped: Callable[[], bool]) -> Iterator[TextDelta]:
    for start in range(0, len(text), PIECE):
        if stopped():
            return
        yield TextDelta(text[start : start + PIECE])
        time.sleep(PAUSE_SECONDS)
