"""Speak with whoever asked over their connection; they never hold up what they asked for."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Final

from apps.domain.wire import BadFrame, Message, MessageReader, encode
from apps.sandboxd.exchange import Answer

_RESULT_SECONDS: Final = 30.0
_HAND_IN_SECONDS: Final = 30.0
_UNSENT_BYTES: Final = 1024 * 1024


class Asker:
    """One connection: it hears progress without ever holding up the call it asked for."""

    def __init__(self, connection: socket.socket, reader: MessageReader) -> None:
        self._connection = connection
        self._reader = reader
        self._unsent = bytearray()
        self.gone = False
        self.cancelled = False

    def fileno(self) -> int:
        """Return the connection's descriptor."""
        return self._connection.fileno()

    def output(self, stream: str, chunk: bytes) -> None:
        """Pass on a piece of output, or drop it when the asker does not keep up."""
        if len(self._unsent) < _UNSENT_BYTES:
            self._unsent += encode(Message("output", {"stream": stream}, chunk))
        self.push()

    def tell(self, message: Message) -> None:
        """Queue a short message."""
        self._unsent += encode(message)
        self.push()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until the asker takes more."""
        return bool(self._unsent)

    def push(self) -> None:
        """Send as much as the asker takes now; never wait in here."""
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self.gone = True

    def gave_up(self) -> bool:
        """Read what came; a cancel message, an ended connection or nonsense all mean give up."""
        try:
            # What came together with the job already waits in the reader.
            self._hear(b"")
            data = self._connection.recv(64 * 1024)
            self._hear(data)
            if not data:
                self.gone = True
        except BlockingIOError:
            pass  # no news
        except (OSError, BadFrame):
            self.gone = True
        return self.gone or self.cancelled

    def _hear(self, data: bytes) -> None:
        for _ in self._reader.feed(data):
            self.cancelled = True

    def answer(self, message: Message) -> None:
        """Send the last message, waiting a bounded time for the asker to take it."""
        if self.gone:
            return
        self._connection.settimeout(_RESULT_SECONDS)
        with suppress(OSError):
            self._connection.sendall(bytes(self._unsent) + encode(message))


class KernelAsker(Asker):
    """One connection to a sandbox that lives on: it also answers the calls that come out of it."""

    def __init__(self, connection: socket.socket, reader: MessageReader) -> None:
        super().__init__(connection, reader)
        self._answers: list[Answer] = []

    @property
    def lost(self) -> bool:
        """Whether the asker is gone or has cancelled."""
        return self.gone or self.cancelled

    def ask(self, number: int, name: str, arguments: bytes) -> None:
        """Pass on a call that the kernel wants to have made."""
        self.tell(Message("call", {"number": number, "name": name}, arguments))

    def news(self) -> list[Answer]:
        """Return the answers that came; anything else that came means give up."""
        self.gave_up()
        answers, self._answers = self._answers, []
        return answers

    def exchange(self, message: Message) -> Message:
        """Send a message and wait a bounded time for the one that answers it."""
        self._connection.settimeout(_HAND_IN_SECONDS)
        self._connection.sendall(encode(message))
        until = time.monotonic() + _HAND_IN_SECONDS
        while time.monotonic() < until:
            data = self._connection.recv(256 * 1024)
            if not data:
                break
            for answer in self._reader.feed(data):
                return answer
        raise BadFrame("The message did not arrive in time.")

    def listen(self) -> None:
        """From here on nothing waits for this connection."""
        self._connection.setblocking(False)

    def _hear(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            number, ok = message.fields.get("number"), message.fields.get("ok")
            if message.kind == "answer" and type(number) is int and isinstance(ok, bool):
                self._answers.append(Answer(number, ok, message.body))
            else:
                self.cancelled = True
