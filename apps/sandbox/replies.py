"""Read what a program inside wrote to its result channel: one frame, bounded, of a closed shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apps.domain.wire import BadJson, JsonValue, read_json

MAX_REPLY: Final = 16 * 1024 * 1024
MAX_MESSAGE: Final = 64 * 1024
"""Characters of what a tool says about its failure; who shows it cuts it to size and says so."""


class BadReply(ValueError):
    """The bytes on the result channel are not an answer."""


@dataclass(frozen=True, slots=True)
class Value:
    """The function returned."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised."""

    type: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Stated:
    """The tool itself says that it could not."""

    message: str


@dataclass(frozen=True, slots=True)
class Unfit:
    """The package does not hold what its manifest says."""

    message: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What a test run claims about itself."""

    ran: int
    failed: int
    skipped: int
    names: tuple[str, ...]
    runtime: str = ""


def read_frame(data: bytes) -> dict[str, JsonValue]:
    """Return the one object that was framed, or refuse the bytes with BadReply."""
    if len(data) < 4:
        raise BadReply("It ended without an answer.")
    size, payload = int.from_bytes(data[:4], "big"), data[4:]
    if size > MAX_REPLY:
        raise BadReply(f"An answer of {size} bytes; at most {MAX_REPLY} are read.")
    if size != len(payload):
        raise BadReply("The answer is cut off, or more follows it.")
    try:
        value = read_json(payload, max_bytes=MAX_REPLY)
    except BadJson as problem:
        raise BadReply(f"The answer is not acceptable JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise BadReply("The answer is not an object.")
    return value


def read_tool_reply(data: bytes) -> Value | Raised | Stated | Unfit:
    """Return what a tool call says about itself, or refuse it with BadReply."""
    fields = read_frame(data)
    kind = fields.pop("kind", None)
    if kind == "value" and set(fields) == {"value"}:
        return Value(fields["value"])
    if kind == "raised" and set(fields) == {"type", "message", "traceback"}:
        return Raised(
            type=_text(fields["type"], 200),
            message=_text(fields["message"], MAX_MESSAGE),
            traceback=_text(fields["traceback"], 8000),
        )
    if kind == "stated" and set(fields) == {"message"}:
        return Stated(_text(fields["message"], MAX_MESSAGE))
    if kind == "contract" and set(fields) == {"message"}:
        return Unfit(_text(fields["message"], 2000))
    raise BadReply("The answer has an unknown shape.")


def read_counts(data: bytes) -> Counts:
    """Return what a test run claims, or refuse it with BadReply."""
    fields = read_frame(data)
    runtime = _text(fields.pop("runtime", ""), 40)
    names = fields.get("names")
    if set(fields) != {"ran", "failed", "skipped", "names"} or not isinstance(names, list):
        raise BadReply("The report has an unknown shape.")
    ran, failed, skipped = (_count(fields[name]) for name in ("ran", "failed", "skipped"))
    if failed + skipped > ran:
        raise BadReply("The report does not add up.")
    return Counts(ran, failed, skipped, tuple(_text(one, 200) for one in names[:20]), runtime)


def _text(value: JsonValue, most: int) -> str:
    if not isinstance(value, str):
        raise BadReply("The answer holds something other than text.")
    return value[:most]


def _count(value: JsonValue) -> int:
    if type(value) is not int or not 0 <= value <= 1_000_000:
        raise BadReply("The report holds something other than a count.")
    return value
