"""Keep one sandbox alive between requests: hand in, listen, relay, watch, and end it for good.

Each has a thread of its own that alone touches its handles. Askers come and go over connections;
what they asked is an `Exchange`, and it is answered after the sandbox has said that it is done, or
after everything in it is dead.
"""

from __future__ import annotations

import logging
import math
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from apps.domain.wire import BadFrame
from apps.sandboxd.exchange import PASSED, Exchange, State, Terms
from apps.sandboxd.frames import Asks, Done, Frame, Lines, Ready
from apps.sandboxd.jobs import Reason, SandboxResult
from apps.sandboxd.launch import LaunchFailed
from apps.sandboxd.limits import MIB, Limits
from apps.sandboxd.live import LiveSandbox, NotDead, is_ready
from apps.sandboxd.livefiles import LiveFiles
from apps.sandboxd.underway import Underway
from apps.sandboxd.watch import INTERVAL, Places, Watch

_log = logging.getLogger(__name__)

_CHUNK: Final = 64 * 1024
_START_SECONDS: Final = 30.0
# Between requests nothing is asked of it, so a look now and then is enough.
_IDLE_LOOK: Final = 0.25
# A request that is cut short by itself gets this long to say so before all of it is killed.
_INTERRUPT_SECONDS: Final = 2.0
_LAST_MOMENT: Final = 0.5


class Kernel:
    """One living sandbox under its owner's key."""

    def __init__(
        self,
        *,
        key: str,
        owner: str,
        generation: str,
        live: LiveSandbox,
        limits: Limits,
        terms: Terms,
        on_end: Callable[[Kernel], None],
    ) -> None:
        self._thread = threading.Thread(
            target=self._live_and_die, name=f"kernel-{generation[:8]}", daemon=True
        )
        self._dead = threading.Event()
        self.key, self.owner, self.generation = key, owner, generation
        self.limits, self.terms = limits, terms
        self.state = State.STARTING
        self.ready = threading.Event()
        self.turn = threading.Lock()
        self.used_at = time.monotonic()
        self.reason: Reason | None = None
        self.detail = ""
        self.farewell_said = b""
        self.files = LiveFiles(live.workspace)
        self._live = live
        self._on_end = on_end
        self._until = math.inf  # its life begins when it is ready
        self._phase_until = time.monotonic() + _START_SECONDS
        self._inbox: deque[Exchange] = deque()
        self._orders: deque[tuple[Reason, str]] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._mailbox = threading.Lock()
        self._underway: Underway | None = None
        self._lines = Lines()
        self._unsent = bytearray()
        self._read_bytes = 0
        self._exit_code: int | None = None
        self._leaving = (Reason.CANCELLED, "")
        self._let_down: Exchange | None = None
        self._selector = selectors.DefaultSelector()
        places = Places(live.proc, tuple(live.writable), live.terminals)
        self._watch = Watch(places, limits, live.group)

    # --- what other threads may do -------------------------------------------------------------

    def start(self) -> None:
        """Begin to live, or raise LaunchFailed with nothing of it left."""
        try:
            self._thread.start()
        except RuntimeError as problem:
            # It was found by others already: they are answered as by any that has died.
            self._finish(Reason.DRIVER_FAILED, "The supervisor had no thread for it.")
            self._die()
            raise LaunchFailed("The sandbox supervisor has no thread for another one.") from problem

    def join(self, seconds: float | None = None) -> None:
        """Wait until everything of it is dead."""
        self._dead.wait(seconds)

    def submit(self, exchange: Exchange) -> None:
        """Hand in a request; whoever does holds `turn` and waits for `finished`."""
        with self._mailbox:
            if self.state is not State.ENDED:
                self._inbox.append(exchange)
                os.eventfd_write(self._wake, 1)
                return
        exchange.result = SandboxResult(self.reason or Reason.EXIT, detail=self.detail)
        exchange.kernel_ended = True
        exchange.finished.set()

    def end(self, reason: Reason, detail: str) -> None:
        """Ask for the end; `join` waits until everything of it is dead."""
        with self._mailbox:
            if self.state is not State.ENDED:
                self._orders.append((reason, detail))
                os.eventfd_write(self._wake, 1)

    # --- the kernel's own thread ---------------------------------------------------------------

    def _live_and_die(self) -> None:
        """Live from the gate to the grave."""
        try:
            self._live.open_gate()
            self._register()
            self._loop()
        except OSError as problem:
            _log.error("A kernel failed in the supervisor: %s", problem)
            self._finish(Reason.DRIVER_FAILED, "The supervisor failed.")
        finally:
            self._die()

    def _register(self) -> None:
        doors: list[tuple[int, str]] = [
            (self._live.stdout, "stdout"),
            (self._live.stderr, "stderr"),
            (self._live.result.fileno(), "channel"),
            (self._live.outer_fd, "exit"),
            (self._wake, "wake"),
        ]
        for number, what in doors:
            self._selector.register(number, selectors.EVENT_READ, what)

    def _loop(self) -> None:
        next_look = time.monotonic() + INTERVAL
        while not self._over():
            now = time.monotonic()
            until = min(self._phase_until, self._until)
            if now >= until:
                self._out_of_time(now)
                continue
            if now >= next_look:
                if found := self._watch.sample():
                    self._finish(found, PASSED[found])
                    return
                pause = _IDLE_LOOK if self.state is State.IDLE else INTERVAL
                next_look = time.monotonic() + pause
                continue
            for key, events in self._selector.select(min(next_look, until) - now):
                self._serve(key.data, events)
                if self._over():
                    return

    def _over(self) -> bool:
        return self.reason is not None

    def _out_of_time(self, now: float) -> None:
        match self.state:
            case State.STARTING:
                self._leave(Reason.WALL_TIMEOUT, "It did not become ready in time.")
            case State.BUSY if self._interrupt(Reason.WALL_TIMEOUT):
                return
            case State.BUSY:
                self._leave(Reason.WALL_TIMEOUT, "The request did not finish before its deadline.")
            case State.LEAVING:
                self._finish(*self._leaving)
            case _ if now >= self._until:
                self._leave(Reason.CANCELLED, "It had lived as long as it may.")
            case _:
                self._leave(Reason.CANCELLED, "It was idle for as long as it may be.")

    def _serve(self, what: str, events: int) -> None:
        match what:
            case "exit":
                self._finish(Reason.EXIT, "Its process ended.")
            case "wake":
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                self._look_into_the_mailbox()
            case "asker":
                if self._underway is not None:
                    self._underway.exchange.asker.push()
                self._hear_asker()
                self._mind_asker()
            case "channel":
                if events & selectors.EVENT_WRITE:
                    self._push()
                if events & selectors.EVENT_READ:
                    self._receive()
            case stream:
                self._listen(stream)

    def _look_into_the_mailbox(self) -> None:
        if self._orders:
            self._leave(*self._orders.popleft())
        elif self.state is State.IDLE and self._inbox:
            self._begin(self._inbox.popleft())

    def _begin(self, exchange: Exchange) -> None:
        self._underway = Underway(exchange, self.limits, self._watch)
        exchange.begun = True
        self.state = State.BUSY
        self._phase_until = exchange.deadline
        self._read_bytes = 0
        self._selector.register(exchange.asker.fileno(), selectors.EVENT_READ, "asker")
        self._send(exchange.line)
        # What came together with the request is not news of the descriptor any more.
        self._hear_asker()

    def _hear_asker(self) -> None:
        underway = self._underway
        if underway is None:
            return
        for line in underway.answers():
            self._send(line)
        if underway.exchange.asker.lost:
            # Its descriptor stays readable for good: there is nothing more to hear.
            with suppress(KeyError):
                self._selector.unregister(underway.exchange.asker.fileno())
            if underway.interrupted is None and not self._interrupt(Reason.CANCELLED):
                self._leave(Reason.CANCELLED, "The request was given up.")

    def _mind_asker(self) -> None:
        """Send on what the asker did not take at once as soon as it takes more.

        The program waits for the answer to its call: nothing else would send the call on.
        """
        if self._underway is None:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._underway.is_talking else 0)
        with suppress(KeyError):
            self._selector.modify(self._underway.exchange.asker.fileno(), wanted, "asker")

    def _interrupt(self, reason: Reason) -> bool:
        """End the request alone, where the program inside can; tell whether that is under way."""
        underway = self._underway
        if not self.terms.interrupt or underway is None or underway.interrupted is not None:
            return False
        underway.interrupted = reason
        self._phase_until = time.monotonic() + _INTERRUPT_SECONDS
        self._send(self.terms.interrupt)
        return True

    def _send(self, line: bytes) -> None:
        self._unsent += line
        self._push()

    def _push(self) -> None:
        with suppress(BlockingIOError, ConnectionError):
            while self._unsent:
                del self._unsent[: self._live.result.send(self._unsent)]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        with suppress(KeyError):
            self._selector.modify(self._live.result.fileno(), wanted, "channel")

    def _receive(self) -> None:
        try:
            # Plain recv: descriptors that a program sends along are dropped by the kernel.
            data = self._live.result.recv(_CHUNK)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            # A program that ends closes it too, a moment before its end is seen.
            if is_ready(self._live.outer_fd, time.monotonic() + _LAST_MOMENT):
                self._finish(Reason.EXIT, "Its process ended.")
            else:
                self._finish(Reason.PROTOCOL_ERROR, "It closed its channel.")
            return
        try:
            for frame in self._lines.feed(data):
                self._take(frame)
                if self.reason is not None:
                    return
        except BadFrame as problem:
            self._finish(Reason.PROTOCOL_ERROR, f"It broke the protocol: {problem}")

    def _take(self, frame: Frame) -> None:
        underway = self._underway
        match frame, self.state:
            case Ready(), State.STARTING:
                self.state = State.IDLE
                self._until = time.monotonic() + self.terms.total_ms / 1000
                self._rest()
                self.ready.set()
            case Done(line=line), State.BUSY if underway is not None and (
                underway.open_call is None or underway.interrupted
            ):
                self._complete(underway, line)
            case Done(line=line), State.LEAVING:
                self.farewell_said = line
                self._finish(*self._leaving)
            case Asks() as asks, State.BUSY if underway is not None and underway.open_call is None:
                refused = underway.relay(asks)
                if refused is not None:
                    self._send(refused)
                self._mind_asker()
            case _:
                raise BadFrame("a line came out of turn.")

    def _listen(self, stream: str) -> bool:
        number: int = getattr(self._live, stream)
        try:
            chunk = os.read(number, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(number)
            return False
        self._read_bytes += len(chunk)
        if self._underway is not None:
            self._underway.hear(stream, chunk)
            self._mind_asker()
        # What it prints between two requests is nobody's, and bounded all the same.
        if self._read_bytes > self.limits.output_read_mb * MIB and self.reason is None:
            self._finish(Reason.OUTPUT_LIMIT, PASSED[Reason.OUTPUT_LIMIT])
        return True

    def _complete(self, underway: Underway, line: bytes) -> None:
        """Answer a request that was carried out, and wait for the next."""
        self._drain()
        if self.reason is not None:
            return
        if found := self._watch.sample():
            self._finish(found, PASSED[found])
            return
        exchange = underway.exchange
        if exchange.keep_workspace:
            exchange.workspace = self.files.take()
        elif exchange.collect:
            exchange.workspace = self.files.all()
        if exchange.wanted:
            exchange.outputs = self.files.collect(exchange.wanted, self.limits)
        exchange.said = line
        self._let_go(underway.interrupted or Reason.OK, "")
        self.state = State.IDLE
        self._rest()
        self._look_into_the_mailbox()

    def _drain(self) -> None:
        """Read what was printed before the request was done: it lies in the pipes already."""
        for stream in ("stdout", "stderr"):
            if getattr(self._live, stream) in self._selector.get_map():
                while self._read_bytes <= self.limits.output_read_mb * MIB and self._listen(stream):
                    pass

    def _rest(self) -> None:
        self.used_at = time.monotonic()
        self._phase_until = self.used_at + self.terms.idle_ms / 1000
        self._read_bytes = 0

    def _leave(self, reason: Reason, detail: str) -> None:
        """End it, after a farewell where one was agreed and it can still hear."""
        if self.state is State.LEAVING:
            return
        if not self.terms.farewell or self.state is State.STARTING:
            self._finish(reason, detail)
            return
        self._leaving = (reason, detail)
        self._let_go(reason, detail, ended=True)
        self.state = State.LEAVING
        now = time.monotonic()
        self._phase_until = now + self.terms.farewell_ms / 1000
        self._until = max(self._until, self._phase_until)
        self._send(self.terms.farewell)

    def _finish(self, reason: Reason, detail: str) -> None:
        if self.reason is None:
            self.reason, self.detail = reason, detail

    def _let_go(self, reason: Reason, detail: str, *, ended: bool = False) -> None:
        """Fill in what came of the request; without `ended` its asker hears at once."""
        underway, self._underway = self._underway, None
        if underway is None:
            return
        exchange = underway.exchange
        with suppress(KeyError, ValueError):
            self._selector.unregister(exchange.asker.fileno())
        exchange.kernel_ended = ended
        crossed = self._live.egress.take() if self._live.egress is not None else ()
        underway.settle(reason, detail, self._exit_code, crossed)
        if ended:
            self._let_down = exchange
        else:
            exchange.finished.set()

    def _die(self) -> None:
        """Kill everything, and only then answer whoever still waits."""
        reason = self.reason or Reason.DRIVER_FAILED
        self._live.kill()
        try:
            code, _ = self._live.reap()
            self._exit_code = code if reason is Reason.EXIT else None
        except NotDead:
            _log.error("A kernel did not die; its user id and handles are kept apart.")
            reason, self.detail = Reason.DRIVER_FAILED, "It could not be killed."
        self.reason = reason
        # The dead write no more: what is left in the pipes is all there is.
        self._drain()
        if self._live.egress is not None:
            # What every connection carried is known once they have ended.
            self._live.egress.close()
        self._let_go(reason, self.detail, ended=True)
        self._selector.close()
        self._live.close()
        self.files.close()
        with self._mailbox:
            self.state = State.ENDED
            waiting = [*self._inbox]
            self._inbox.clear()
            os.close(self._wake)
        self._on_end(self)
        for exchange in waiting:
            exchange.result = SandboxResult(reason, detail=self.detail)
            exchange.kernel_ended = True
        for exchange in [*([self._let_down] if self._let_down else []), *waiting]:
            exchange.finished.set()
        self.ready.set()
        self._dead.set()
        _log.info("Kernel %s ended: %s. %s", self.generation[:8], reason, self.detail)
