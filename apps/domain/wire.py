"""Say how messages are framed, and read JSON that somebody untrusted wrote.

A message is a small JSON header and a body of raw bytes, each with its length in front, so bytes
never pass through a text encoding. Every reader states its bounds before the first byte arrives.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

JsonValue = dict[str, "JsonValue"] | list["JsonValue"] | str | int | float | bool | None

MAX_HEADER = 1024 * 1024
MAX_DEPTH = 64
MAX_DIGITS = 40
MAX_ITEMS = 500_000

_PREFIX = struct.Struct(">4sII")
_MAGIC = b"KZ\x01\n"
# One string, closed or running to the end; possessive, so hostile input is scanned once.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_MARK = re.compile(rb"[\[\]{},]")


class BadFrame(ValueError):
    """The other side sent something that is not a message within the agreed bounds."""


class BadJson(ValueError):
    """The bytes are not JSON that we are willing to read."""


@dataclass(frozen=True, slots=True)
class Message:
    """One framed message: what kind it is, its fields, and its raw bytes."""

    kind: str
    fields: dict[str, JsonValue] = field(default_factory=dict)
    body: bytes = b""


def encode(message: Message) -> bytes:
    """Frame one message for the socket."""
    header = json.dumps(
        {**message.fields, "kind": message.kind}, ensure_ascii=True, allow_nan=False
    ).encode()
    if len(header) > MAX_HEADER:
        raise BadFrame(f"The header has {len(header)} bytes; {MAX_HEADER} are allowed.")
    return _PREFIX.pack(_MAGIC, len(header), len(message.body)) + header + message.body


class MessageReader:
    """Turn a stream of bytes into messages, refusing whatever exceeds the bounds."""

    def __init__(self, *, max_body: int, max_header: int = MAX_HEADER) -> None:
        self._max_body = max_body
        self._max_header = min(max_header, MAX_HEADER)
        self._buffer = bytearray()

    @property
    def between_messages(self) -> bool:
        """Tell whether the stream may end here without cutting a message."""
        return not self._buffer

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add bytes and yield each message that is complete."""
        self._buffer += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> Message | None:
        head = bytes(self._buffer[: _PREFIX.size])
        if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
            raise BadFrame("The bytes do not start with the message mark.")
        if len(head) < _PREFIX.size:
            return None
        _, header_size, body_size = _PREFIX.unpack(head)
        if header_size > self._max_header:
            raise BadFrame(f"A header of {header_size} bytes; {self._max_header} are allowed.")
        if body_size > self._max_body:
            raise BadFrame(f"A body of {body_size} bytes; {self._max_body} are allowed.")
        end = _PREFIX.size + header_size + body_size
        if len(self._buffer) < end:
            return None
        header = bytes(self._buffer[_PREFIX.size : _PREFIX.size + header_size])
        body = bytes(self._buffer[_PREFIX.size + header_size : end])
        del self._buffer[:end]
        return _message(header, body)


def _message(header: bytes, body: bytes) -> Message:
    try:
        fields = read_json(header, max_bytes=MAX_HEADER)
    except BadJson as problem:
        raise BadFrame(f"The header is not acceptable: {problem}") from problem
    if not isinstance(fields, dict):
        raise BadFrame("The header is not an object.")
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or not kind:
        raise BadFrame("The header names no kind.")
    return Message(kind=kind, fields=fields, body=body)


def read_json(
    data: bytes,
    *,
    max_bytes: int,
    max_depth: int = MAX_DEPTH,
    max_digits: int = MAX_DIGITS,
    max_items: int = MAX_ITEMS,
) -> JsonValue:
    """Parse one JSON text from untrusted bytes, or refuse it with BadJson.

    Size, encoding, nesting and the number of values are judged before the parser sees anything.
    """
    if len(data) > max_bytes:
        raise BadJson(f"{len(data)} bytes; at most {max_bytes} are read.")
    try:
        text = data.decode("utf-8", errors="strict")
    except UnicodeDecodeError as problem:
        raise BadJson(f"Not UTF-8 at byte {problem.start}.") from None
    if text.startswith("\ufeff"):
        raise BadJson("A byte order mark stands before the value.")
    _check_shape(data, max_depth=max_depth, max_items=max_items)

    def whole(digits: str) -> int:
        if len(digits.lstrip("-")) > max_digits:
            raise BadJson(f"A whole number with more than {max_digits} digits.")
        return int(digits)

    decoder = json.JSONDecoder(
        object_pairs_hook=_object, parse_constant=_no_constant, parse_int=whole, parse_float=_float
    )
    try:
        value: JsonValue = decoder.decode(text)
    except json.JSONDecodeError as problem:
        raise BadJson(f"{problem.msg} at character {problem.pos}.") from None
    except RecursionError:
        raise BadJson("Nested too deeply.") from None
    _check_text(data, value)
    return value


def _check_shape(data: bytes, *, max_depth: int, max_items: int) -> None:
    depth = 0
    items = 1
    for mark in _MARK.finditer(_STRING.sub(b"", data)):
        sign = mark.group()
        if sign in b"[{":
            depth += 1
            items += 1
            if depth > max_depth:
                raise BadJson(f"Nested more than {max_depth} deep.")
        elif sign in b"]}":
            depth -= 1
        else:
            items += 1
        if items > max_items:
            raise BadJson(f"More than {max_items} values.")


def _check_text(data: bytes, value: JsonValue) -> None:
    # Both can only come from an escape, because raw ones are no valid UTF-8 or no valid JSON.
    lowered = data.lower()
    if b"\\ud" not in lowered and b"\\u0000" not in lowered:
        return
    waiting: list[JsonValue] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            _check_string(item)
        elif isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _check_string(text: str) -> None:
    if "\x00" in text:
        raise BadJson("A string holds the NUL character.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadJson("A string holds half of a surrogate pair.") from None


def _object(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in found:
            raise BadJson(f"The key {key[:80]!r} stands twice in one object.")
        found[key] = value
    return found


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadJson("A number outside the range of floating point.")
    return number


def _no_constant(name: str) -> NoReturn:
    raise BadJson(f"{name} is not JSON.")
