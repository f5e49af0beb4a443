"""What is asked of a living sandbox, by whom, under which terms, and what came of it?"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from apps.sandboxd.jobs import Output, Reason, SandboxResult
from apps.sandboxd.limits import MIB
from apps.sandboxd.workfiles import WorkChanges

MAX_CALLS: Final = 64
MAX_CALL_BYTES: Final = 4 * MIB

PASSED: Final = {
    Reason.CPU_LIMIT: "It used more CPU time than it may in its life.",
    Reason.MEMORY_LIMIT: "It used more memory than it may.",
    Reason.OUTPUT_LIMIT: "It wrote more output than it may.",
    Reason.TOO_MANY_FILES: "It made more files than it may.",
}


class State(StrEnum):
    """What a kernel is doing."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a kernel may live, and what is said to it before it ends.

    `farewell` is a line that is sent before the end, which then waits `farewell_ms` for an answer.
    With `interrupt`, a request that runs out of time or is given up is ended by that line, and the
    kernel lives on.
    """

    idle_ms: int
    total_ms: int
    farewell: bytes = b""
    farewell_ms: int = 0
    interrupt: bytes = b""


class Answer(NamedTuple):
    """What came of a call that a kernel asked for: the number of the call, and one JSON text."""

    number: int
    ok: bool
    value: bytes


class Asker(Protocol):
    """Who asked: hears output and calls, answers them, and may give up."""

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is news."""

    def output(self, stream: str, chunk: bytes) -> None:
        """Take a piece of output; never wait in here."""

    def ask(self, number: int, name: str, arguments: bytes) -> None:
        """Take a call that the kernel wants to have made; never wait in here."""

    def push(self) -> None:
        """Send on what could not be sent at once; never wait in here."""

    @property
    def has_unsent(self) -> bool:
        """Whether something is left to be sent on."""

    def news(self) -> list[Answer]:
        """Return the answers that came."""

    @property
    def lost(self) -> bool:
        """Whether the asker is gone or has cancelled."""


@dataclass(slots=True)
class Exchange:
    """One request to a kernel, and what became of it. All that came out is untrusted."""

    asker: Asker
    line: bytes
    deadline: float
    keep_workspace: bool = False
    collect: bool = False
    wanted: tuple[str, ...] = ()
    result: SandboxResult = field(default_factory=lambda: SandboxResult(Reason.DRIVER_FAILED))
    said: bytes = b""
    workspace: WorkChanges | None = None
    outputs: tuple[Output, ...] = ()
    begun: bool = False
    kernel_ended: bool = False
    calls: int = 0
    finished: threading.Event = field(default_factory=threading.Event)
