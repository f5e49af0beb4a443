"""Read what a program that lives on says over its channel: one JSON object on each line, bounded.

Whatever runs in there may write such lines too, so each is a claim about itself and nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apps.domain.wire import BadFrame, BadJson, JsonValue, read_json

MAX_LINE: Final = 1024 * 1024
MAX_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Ready:
    """The program waits for its first request."""


@dataclass(frozen=True, slots=True)
class Asks:
    """The program wants something of whoever asked it: a call of a tool, or the list of them."""

    name: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The request is carried out; the whole line is for whoever asked to judge."""

    line: bytes


Frame = Ready | Asks | Done


class Lines:
    """Turn the bytes of one channel into frames, refusing whatever exceeds the bounds."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add bytes and yield each frame that is complete."""
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            yield read_line(line)
        if len(self._buffer) > MAX_LINE:
            raise BadFrame(f"A line of more than {MAX_LINE} bytes.")


def read_line(line: bytes) -> Frame:
    """Return one frame, or refuse the line with BadFrame."""
    try:
        said = read_json(line, max_bytes=MAX_LINE)
    except BadJson as problem:
        raise BadFrame(f"A line is not acceptable: {problem}") from problem
    if not isinstance(said, dict):
        raise BadFrame("A line is not an object.")
    kind = said.get("kind")
    if kind == "ready" and len(said) == 1:
        return Ready()
    if kind == "done":
        return Done(line)
    if kind == "call" and set(said) == {"kind", "name", "args"}:
        name, arguments = said["name"], said["args"]
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise BadFrame("A call names no tool.")
        if not isinstance(arguments, dict):
            raise BadFrame("A call's arguments are not an object.")
        return Asks(name, json.dumps(arguments, allow_nan=False).encode())
    raise BadFrame("A line has an unknown shape.")


def write_line(said: Mapping[str, JsonValue]) -> bytes:
    """Write one request for the program."""
    return json.dumps(said, allow_nan=False).encode() + b"\n"


def write_answer(*, ok: bool, value: bytes) -> bytes:
    """Write the answer to a call; `value` is one JSON text."""
    if b"\n" in value:
        raise BadFrame("An answer holds a line break.")
    word = b"true" if ok else b"false"
    return b'{"kind": "answer", "ok": ' + word + b', "value": ' + value + b"}\n"
