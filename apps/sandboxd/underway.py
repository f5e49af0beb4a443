"""One request that a kernel carries out: what it prints, which calls it makes, what comes of it.

The kernel's own thread alone touches it. All that came out of the sandbox is untrusted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from apps.domain.egress import Crossing
from apps.sandboxd.exchange import MAX_CALL_BYTES, MAX_CALLS, Exchange
from apps.sandboxd.frames import MAX_LINE, Asks, write_answer
from apps.sandboxd.jobs import Reason, SandboxResult, Stats
from apps.sandboxd.limits import Limits
from apps.sandboxd.supervise import Kept
from apps.sandboxd.watch import Watch


class Underway:
    """A request from when a kernel began with it until it is answered."""

    def __init__(self, exchange: Exchange, limits: Limits, watch: Watch) -> None:
        self.exchange = exchange
        self.open_call: int | None = None
        """The call whose answer the program waits for."""
        self.interrupted: Reason | None = None
        """Why it is to be cut short, once the program was told to."""
        self._watch = watch
        self._began = time.monotonic()
        self._cpu_before = watch.cpu_ms
        self._call_bytes = 0
        self._kept = {
            "stdout": Kept(limits.stdout_keep_kib * 1024),
            "stderr": Kept(limits.stderr_keep_kib * 1024),
        }

    @property
    def is_talking(self) -> bool:
        """Whether something is left to be sent on to whoever asked."""
        return self.exchange.asker.has_unsent

    def hear(self, stream: str, chunk: bytes) -> None:
        """Keep a piece of output, and pass it on."""
        self._kept[stream].add(chunk)
        self.exchange.asker.output(stream, chunk)

    def relay(self, asks: Asks) -> bytes | None:
        """Pass a call on to whoever asked; return its answer where it may not be made."""
        self.exchange.calls += 1
        self._call_bytes += len(asks.arguments)
        if self.exchange.calls > MAX_CALLS or self._call_bytes > MAX_CALL_BYTES:
            said = b'"This request has made as many calls as it may."'
            return self._answer(ok=False, value=said)
        self.open_call = self.exchange.calls
        self.exchange.asker.ask(self.exchange.calls, asks.name, asks.arguments)
        return None

    def answers(self) -> Iterator[bytes]:
        """Yield the line that answers the open call, if its answer has come."""
        for answer in self.exchange.asker.news():
            if answer.number == self.open_call:
                self.open_call = None
                yield self._answer(ok=answer.ok, value=answer.value)

    def _answer(self, *, ok: bool, value: bytes) -> bytes:
        self._call_bytes += len(value)
        if len(value) > MAX_LINE or self._call_bytes > MAX_CALL_BYTES:
            ok, value = False, b'"The answer is larger than what one request may be given."'
        return write_answer(ok=ok, value=value)

    def settle(
        self, reason: Reason, detail: str, exit_code: int | None, crossings: tuple[Crossing, ...]
    ) -> None:
        """Fill in what came of it."""
        exchange = self.exchange
        exchange.result = SandboxResult(
            reason=reason,
            exit_code=exit_code,
            stdout=self._kept["stdout"].content(),
            stderr=self._kept["stderr"].content(),
            result=exchange.said,
            outputs=exchange.outputs,
            workspace=exchange.workspace,
            stats=Stats(
                wall_ms=int((time.monotonic() - self._began) * 1000),
                cpu_ms=max(0, self._watch.cpu_ms - self._cpu_before),
                max_rss_kib=self._watch.peak_bytes // 1024,
                stdout_bytes=self._kept["stdout"].total,
                stderr_bytes=self._kept["stderr"].total,
            ),
            detail=detail,
            crossings=crossings,
        )
