"""Who parses for this process? One child, started when first needed, replaced when it fails."""

from __future__ import annotations

import functools
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apps.domain.hashline import Survey, SyntaxUnavailable
from apps.domain.hashline.languages import language_of
from apps.domain.wire import BadFrame, Message, MessageReader, encode
from apps.sandbox.syntax.frames import MAX_ANSWER_BODY, BadAnswer, question, read_answer

DEADLINE_SECONDS: Final = 5.0
_START_SECONDS: Final = 30.0
MAX_QUESTIONS: Final = 500
"""A child is replaced after so many, before what it leaks or has used up matters."""

_ROOT: Final = Path(__file__).resolve().parents[3]
_PIECE: Final = 256 * 1024


class _Gone(Exception):
    """The child ended, or wrote what is no answer."""


@functools.cache
def confined_grammar() -> ConfinedGrammar:
    """Return the grammar of this process."""
    return ConfinedGrammar()


class ConfinedGrammar:
    """Answers about syntax from a child process that has nothing to lose."""

    def __init__(self, *, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def survey(self, path: str, text: str, rows: Sequence[int]) -> Survey | None:
        """Answer for these rows, None where no grammar is known, or raise SyntaxUnavailable."""
        if language_of(path) is None:
            return None
        asked = encode(question(path, text, rows))
        with self._lock:
            try:
                return self._ask(asked)
            except _Gone:
                raise SyntaxUnavailable("The grammar failed on this text.") from None
            except TimeoutError:
                raise SyntaxUnavailable("Parsing took too long.") from None

    def examine(self) -> str:
        """Start the child if need be; return why it cannot parse here, or nothing if it can."""
        try:
            self.survey("probe.py", "answer = 42\n", [1])
        except SyntaxUnavailable as why:
            return str(why)
        except OSError as problem:
            return f"The parsing process cannot be started: {problem.strerror}."
        return ""

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._drop()

    def _ask(self, asked: bytes) -> Survey | None:
        child, seasoned = self._ready_child()
        try:
            return _judged(child.ask(asked, self._deadline))
        except _Gone:
            self._drop()
            if not seasoned:
                raise
            # It may have ended of age or for want of time; a new one that ends at once ended on
            # this text.
            return self._ask(asked)
        except TimeoutError:
            self._drop()
            raise

    def _ready_child(self) -> tuple[_Child, bool]:
        """Return the child, and whether it has answered before."""
        if self._child is not None and self._child.usable:
            return self._child, True
        self._drop()
        self._child = _Child()
        return self._child, False

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


class _Child:
    def __init__(self) -> None:
        self._owner = os.getpid()
        self._asked = 0
        self._process = subprocess.Popen(
            # Only where Python's own and the installed packages lie is passed on.
            [sys.executable, "-E", "-s", "-m", "apps.sandbox.syntax"],
            cwd=_ROOT,
            env={"LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._reader = MessageReader(max_body=MAX_ANSWER_BODY)
        try:
            ready = self._read(_START_SECONDS)
        except (_Gone, TimeoutError):
            self.end()
            raise SyntaxUnavailable("The parsing process does not start.") from None
        if ready.kind != "ready":
            self.end()
            raise SyntaxUnavailable("The parsing process does not start.")

    @property
    def usable(self) -> bool:
        """Tell whether the child is this process's own, alive, and not yet worn out."""
        return (
            self._owner == os.getpid()
            and self._asked < MAX_QUESTIONS
            and self._process.poll() is None
        )

    def ask(self, asked: bytes, deadline: float) -> Message:
        self._asked += 1
        if self._process.stdin is None:
            raise _Gone
        left = memoryview(asked)
        try:
            while left:
                left = left[os.write(self._process.stdin.fileno(), left) :]
        except OSError:
            raise _Gone from None
        return self._read(deadline)

    def end(self) -> None:
        """Kill the child, unless it belongs to the process that this one was forked from."""
        if self._owner != os.getpid():
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self, seconds: float) -> Message:
        until = time.monotonic() + seconds
        pipe = self._process.stdout
        if pipe is None:
            raise _Gone
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise TimeoutError
            piece = os.read(pipe.fileno(), _PIECE)
            if not piece:
                raise _Gone
            try:
                for message in self._reader.feed(piece):
                    return message
            except BadFrame:
                raise _Gone from None


def _judged(message: Message) -> Survey | None:
    if message.kind == "unavailable":
        raise SyntaxUnavailable(str(message.fields.get("why", ""))[:200])
    try:
        return read_answer(message)
    except BadAnswer:
        raise _Gone from None
