"""Carry one call from its launch to its result: feed, listen, watch, kill, collect."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from apps.sandboxd.collect import collect
from apps.sandboxd.jobs import (
    MAX_OUTPUT_BYTES,
    Output,
    Reason,
    SandboxResult,
    SandboxSpec,
    Stats,
)
from apps.sandboxd.limits import MIB, Clamp, Limits
from apps.sandboxd.live import LiveSandbox, NotDead, Spent
from apps.sandboxd.watch import INTERVAL, Places, Watch
from apps.sandboxd.workfiles import known_of
from apps.sandboxd.workspace import take_back

_log = logging.getLogger(__name__)

_CHUNK: Final = 64 * 1024
_FIRST_LOOK: Final = 0.01


class Listener(Protocol):
    """Who asked for the call: hears its progress and may give it up."""

    def output(self, stream: str, chunk: bytes) -> None:
        """Take a piece of output; never wait in here."""

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is news from the asker."""

    def gave_up(self) -> bool:
        """Read the news; tell whether the call is no longer wanted."""


class Kept:
    """Keep the beginning and the end of a stream within a bound, and count the rest."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Take a piece of the stream."""
        self.total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        excess = len(self._tail) - (self._most - self._half)
        if excess > 0:
            del self._tail[:excess]

    def content(self) -> bytes:
        """Return what was kept, with a line that says how much is missing."""
        missing = self.total - len(self._head) - len(self._tail)
        if not missing:
            return bytes(self._head + self._tail)
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % missing + bytes(self._tail)


@dataclass(slots=True)
class Call:
    """One call in a live sandbox."""

    live: LiveSandbox
    spec: SandboxSpec
    limits: Limits
    clamped: tuple[Clamp, ...]
    listener: Listener
    deadline: float
    stopping: Callable[[], bool]
    python: str
    reason: Reason | None = None
    detail: str = ""
    stdin: memoryview = field(default_factory=lambda: memoryview(b""))
    result: bytearray = field(default_factory=bytearray)
    kept: dict[str, Kept] = field(default_factory=dict)
    ended: bool = False
    read_bytes: int = 0

    def run(self) -> SandboxResult:
        """Run the program to its end, and return only once everything of it is dead."""
        self.stdin = memoryview(self.spec.opening() + self.spec.stdin)
        self.kept = {
            "stdout": Kept(self.limits.stdout_keep_kib * 1024),
            "stderr": Kept(self.limits.stderr_keep_kib * 1024),
        }
        places = Places(self.live.proc, tuple(self.live.writable), self.live.terminals)
        watch = Watch(places, self.limits, self.live.group)
        started = time.monotonic()
        try:
            with selectors.DefaultSelector() as selector:
                self._register(selector)
                self._loop(selector, watch)
        finally:
            self.live.kill()
            exit_code, spent = self._reap()
            if self.live.egress is not None:
                self.live.egress.close()
        wall_ms = int((time.monotonic() - started) * 1000)
        # The dead write no more: what is left in the pipes is all there is.
        self._drain()
        return self._judge(exit_code, spent, watch, wall_ms)

    def _register(self, selector: selectors.BaseSelector) -> None:
        selector.register(self.live.stdout, selectors.EVENT_READ, "stdout")
        selector.register(self.live.stderr, selectors.EVENT_READ, "stderr")
        selector.register(self.live.result, selectors.EVENT_READ, "result")
        selector.register(self.live.outer_fd, selectors.EVENT_READ, "exit")
        selector.register(self.listener, selectors.EVENT_READ, "listener")
        selector.register(self.live.stdin, selectors.EVENT_WRITE, "stdin")

    def _loop(self, selector: selectors.BaseSelector, watch: Watch) -> None:
        next_look = time.monotonic() + _FIRST_LOOK
        while self.reason is None and not self.ended:
            now = time.monotonic()
            if now >= self.deadline:
                self.reason = Reason.WALL_TIMEOUT
                return
            if now >= next_look:
                self.reason = watch.sample()
                if self.stopping():
                    self.reason = Reason.CANCELLED
                next_look = time.monotonic() + INTERVAL
                continue
            for key, _ in selector.select(min(next_look, self.deadline) - now):
                self._serve(selector, key.data, key.fileobj)

    def _serve(self, selector: selectors.BaseSelector, what: str, where: object) -> None:
        if what == "exit":
            self.ended = True
        elif what == "stdin":
            if not self._feed():
                selector.unregister(self.live.stdin)
                os.close(self.live.stdin)
                self.live.stdin = -1
        elif what == "listener":
            if self.listener.gave_up():
                self.reason = Reason.CANCELLED
        elif what == "result":
            if not self._receive():
                selector.unregister(self.live.result)
        elif not self._listen(what):
            selector.unregister(getattr(self.live, what))

    def _feed(self) -> bool:
        """Write standard input; return whether there is more to write."""
        if self.stdin:
            try:
                self.stdin = self.stdin[os.write(self.live.stdin, self.stdin[:_CHUNK]) :]
            except BlockingIOError:
                return True
            except BrokenPipeError:
                # A program may close its input unread.
                return False
        return bool(self.stdin)

    def _listen(self, stream: str) -> bool:
        """Read one piece of output; return whether the stream may have more."""
        try:
            chunk = os.read(getattr(self.live, stream), _CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        self.kept[stream].add(chunk)
        self.read_bytes += len(chunk)
        self.listener.output(stream, chunk)
        if self.read_bytes > self.limits.output_read_mb * MIB:
            self.reason = self.reason or Reason.OUTPUT_LIMIT
            return False
        return True

    def _receive(self) -> bool:
        try:
            # Plain recv: descriptors that a program sends along are dropped by the kernel.
            chunk = self.live.result.recv(_CHUNK)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self.result += chunk
        if len(self.result) > self.limits.result_kib * 1024:
            self.reason = self.reason or Reason.OUTPUT_LIMIT
            self.detail = "The result channel carried more than its limit."
            return False
        return bool(chunk)

    def _drain(self) -> None:
        over = (Reason.OUTPUT_LIMIT,)
        for stream in ("stdout", "stderr"):
            while self.reason not in over and self._more(self._listen, stream):
                pass
        while self.reason not in over and self._more(lambda _: self._receive(), ""):
            pass

    def _more(self, read: Callable[[str], bool], stream: str) -> bool:
        before = self.read_bytes + len(self.result)
        return read(stream) and self.read_bytes + len(self.result) > before

    def _reap(self) -> tuple[int, Spent]:
        try:
            return self.live.reap()
        except NotDead:
            _log.error("A sandbox did not die; its user id and handles are kept apart.")
            raise

    def _judge(self, exit_code: int, spent: Spent, watch: Watch, wall_ms: int) -> SandboxResult:
        cpu_ms = max(spent.cpu_ms, watch.cpu_ms)
        group = self.live.group
        if self.reason is None:
            if group is not None and group.out_of_memory():
                self.reason = Reason.MEMORY_LIMIT
            elif exit_code == 128 + signal.SIGXCPU or cpu_ms >= self.limits.cpu_ms:
                self.reason = Reason.CPU_LIMIT
            else:
                self.reason = Reason.OK if exit_code == 0 else Reason.EXIT
        return SandboxResult(
            reason=self.reason,
            exit_code=exit_code if self.reason in (Reason.OK, Reason.EXIT) else None,
            stdout=self.kept["stdout"].content(),
            stderr=self.kept["stderr"].content(),
            result=bytes(self.result[: self.limits.result_kib * 1024]),
            outputs=self._outputs(),
            stats=Stats(
                wall_ms=wall_ms,
                cpu_ms=cpu_ms,
                max_rss_kib=max(spent.max_rss_kib, watch.peak_bytes // 1024),
                stdout_bytes=self.kept["stdout"].total,
                stderr_bytes=self.kept["stderr"].total,
            ),
            clamped=self.clamped,
            detail=self.detail,
            python=self.python,
            crossings=self.live.egress.crossings() if self.live.egress else (),
            workspace=(
                take_back(self.live.workspace, known_of(self.spec.workspace))
                if self.spec.keep_workspace
                else None
            ),
        )

    def _outputs(self) -> tuple[Output, ...]:
        return collect(
            self.live.workspace,
            self.spec.outputs,
            max_file=self.limits.workspace_mb * MIB,
            max_total=MAX_OUTPUT_BYTES,
        )
