"""How do questions and answers about syntax cross a pipe?

Both sides read what the other wrote with bounds, for a child whose grammar was overrun may write
anything. Nodes are numbered once for an answer, because the lines of a text share most of theirs.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from apps.domain.hashline import LineSet, Node, Survey
from apps.domain.wire import JsonValue, Message

MAX_TEXT_BODY = 4 * 1024 * 1024
MAX_ANSWER_BODY = 32 * 1024 * 1024
MAX_KINDS = 4_096
MAX_KIND = 200

_FIELDS = 6
_BROKEN, _ERROR = 1, 2


class BadAnswer(ValueError):
    """The child wrote something that is no answer to a question."""


def question(path: str, text: str, rows: Sequence[int]) -> Message:
    """Ask about some rows of a text."""
    ranges: list[JsonValue] = [[first, last] for first, last in LineSet.of_lines(rows).ranges]
    return Message("ask", {"path": path, "rows": ranges}, text.encode())


def read_question(message: Message) -> tuple[str, str, list[int]]:
    """Return path, text and rows of a question; the trusted side wrote it."""
    path, ranges = message.fields["path"], message.fields["rows"]
    if not isinstance(path, str) or not isinstance(ranges, list):
        raise BadAnswer("The question is malformed.")
    lines = LineSet.of(map(_pair, ranges))
    return path, message.body.decode(), list(lines)


def answer(survey: Survey | None) -> Message:
    """Put a survey into a message."""
    if survey is None:
        return Message("unknown")
    kinds: dict[str, int] = {}
    nodes: dict[Node, int] = {}
    chains = array("i")
    for row, chain in survey.chains.items():
        chains.extend((row, len(chain)))
        chains.extend(nodes.setdefault(node, len(nodes)) for node in chain)
    table = array("i")
    for node in nodes:
        table.extend(
            (
                kinds.setdefault(node.kind, len(kinds)),
                node.start_row,
                node.start_column,
                node.end_row,
                node.end_column,
                _BROKEN * node.broken | _ERROR * node.error,
            )
        )
    fields: dict[str, JsonValue] = {
        "broken": survey.broken,
        "constructs": survey.constructs,
        "kinds": list(kinds),
        "nodes": len(nodes),
    }
    return Message("survey", fields, table.tobytes() + chains.tobytes())


def read_answer(message: Message) -> Survey | None:
    """Return the survey in an answer, or refuse the answer with BadAnswer."""
    if message.kind == "unknown":
        return None
    fields = message.fields
    broken, constructs = fields.get("broken"), fields.get("constructs")
    kinds, count = fields.get("kinds"), fields.get("nodes")
    if (
        message.kind != "survey"
        or not isinstance(broken, bool)
        or not isinstance(constructs, int)
        or not isinstance(count, int)
        or not isinstance(kinds, list)
        or len(kinds) > MAX_KINDS
    ):
        raise BadAnswer("The answer lacks its parts.")
    numbers = array("i")
    if len(message.body) % numbers.itemsize:
        raise BadAnswer("The answer is cut.")
    numbers.frombytes(message.body)
    if not 0 <= count * _FIELDS <= len(numbers):
        raise BadAnswer("The answer counts more nodes than it holds.")
    nodes = _nodes(numbers[: count * _FIELDS], [_kind(kind) for kind in kinds])
    return Survey(broken, constructs, _chains(numbers[count * _FIELDS :], nodes))


def _nodes(numbers: array[int], kinds: list[str]) -> list[Node]:
    nodes: list[Node] = []
    for at in range(0, len(numbers), _FIELDS):
        kind, start_row, start_column, end_row, end_column, flags = numbers[at : at + _FIELDS]
        if not 0 <= kind < len(kinds) or not 0 <= start_row <= end_row:
            raise BadAnswer("The answer holds an impossible node.")
        nodes.append(
            Node(
                kinds[kind],
                start_row,
                start_column,
                end_row,
                end_column,
                bool(flags & _BROKEN),
                bool(flags & _ERROR),
            )
        )
    return nodes


def _chains(numbers: array[int], nodes: list[Node]) -> dict[int, tuple[Node, ...]]:
    chains: dict[int, tuple[Node, ...]] = {}
    at = 0
    while at < len(numbers):
        head = numbers[at : at + 2]
        if len(head) < 2 or not 0 <= head[1] <= len(numbers) - at - 2:
            raise BadAnswer("The answer is cut.")
        row, length = head
        chain = numbers[at + 2 : at + 2 + length]
        if any(not 0 <= index < len(nodes) for index in chain):
            raise BadAnswer("The answer names a node that it does not hold.")
        chains[row] = tuple(nodes[index] for index in chain)
        at += 2 + length
    return chains


def _kind(value: JsonValue) -> str:
    if not isinstance(value, str) or len(value) > MAX_KIND:
        raise BadAnswer("The answer holds an impossible kind.")
    return value


def _pair(value: JsonValue) -> tuple[int, int]:
    if isinstance(value, list) and len(value) == 2:
        first, last = value
        if isinstance(first, int) and isinstance(last, int):
            return first, last
    raise BadAnswer("The question is malformed.")
