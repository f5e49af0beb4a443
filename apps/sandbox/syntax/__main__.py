"""The child: answer one question after another until the pipe ends."""

from __future__ import annotations

import os

from apps.domain.hashline import SyntaxUnavailable
from apps.domain.wire import Message, MessageReader, encode
from apps.sandbox.syntax.frames import MAX_ANSWER_BODY, MAX_TEXT_BODY, answer, read_question
from apps.sandbox.syntax.lockdown import lock_down
from apps.sandbox.syntax.trees import TreeSitter, load_grammars

_MEMORY = 1024 * 1024 * 1024
_CPU_SECONDS = 120
_PIECE = 256 * 1024


def main() -> None:
    """Load every grammar, give up everything else, and answer."""
    load_grammars()
    lock_down(memory=_MEMORY, cpu_seconds=_CPU_SECONDS)
    _write(encode(Message("ready")))
    trees = TreeSitter(keep=2)
    reader = MessageReader(max_body=MAX_TEXT_BODY)
    while piece := os.read(0, _PIECE):
        for message in reader.feed(piece):
            path, text, rows = read_question(message)
            try:
                reply = answer(trees.survey(path, text, rows))
            except SyntaxUnavailable as why:
                reply = Message("unavailable", {"why": str(why)})
            if len(reply.body) > MAX_ANSWER_BODY:
                reply = Message("unavailable", {"why": "The answer is too large."})
            _write(encode(reply))


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
