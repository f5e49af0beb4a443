"""Serve jobs over a Unix socket: who may ask, how many run at once, and how it all ends."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apps.domain.wire import BadFrame, Message, MessageReader, encode
from apps.sandboxd.askers import Asker, KernelAsker
from apps.sandboxd.driver import Driver, NoDriver
from apps.sandboxd.job_wire import decode_job, encode_result
from apps.sandboxd.jobs import MAX_JOB_BODY, BadJob, Reason, SandboxResult, SandboxSpec
from apps.sandboxd.keeper import Keeper, KeeperRefuses
from apps.sandboxd.kernel_front import KERNEL_KINDS, converse
from apps.sandboxd.launch import LaunchFailed
from apps.sandboxd.limits import CEILINGS, Limits, clamp
from apps.sandboxd.live import NotDead
from apps.sandboxd.probe import ProbeReport, encode_probe
from apps.sandboxd.ready import Ready
from apps.sandboxd.supervise import Call
from apps.sandboxd.uids import NoFreeUid
from apps.sandboxd.workfiles import BadWorkFiles

_log = logging.getLogger(__name__)

_FIRST_MESSAGE_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 2.5


@dataclass(frozen=True, slots=True)
class Service:
    """What the operator allows: who asks, how many at once, how much each."""

    socket: Path
    allowed: frozenset[int]
    running: int = 4
    waiting: int = 64
    ready: int = 1
    ready_seconds: int = 30
    ceilings: Limits = CEILINGS
    kernels: int = 8
    kernels_of_one: int = 3
    node: str = ""


@dataclass(slots=True)
class Slots:
    """Bound how many sandboxes run and how many jobs wait for one."""

    running: int
    waiting: int
    _free: threading.Condition = field(default_factory=threading.Condition)
    _queue: list[object] = field(default_factory=list)

    def take(self, until: float, gave_up: Callable[[], bool]) -> bool | None:
        """Wait in order for a slot; False where none came in time, None where the queue is full."""
        ticket = object()
        with self._free:
            if self.running <= 0 and len(self._queue) >= self.waiting:
                return None
            self._queue.append(ticket)
            try:
                while not (self.running > 0 and self._queue[0] is ticket):
                    if time.monotonic() >= until or gave_up():
                        return False
                    self._free.wait(0.05)
                self.running -= 1
                return True
            finally:
                self._queue.remove(ticket)
                self._free.notify_all()

    def is_anybody_waiting(self) -> bool:
        """Tell whether a job waits for a slot now."""
        with self._free:
            return bool(self._queue)

    def give_back(self) -> None:
        """Free a slot."""
        with self._free:
            self.running += 1
            self._free.notify_all()


class Server:
    """The supervisor's front: accepts, judges, queues, and answers."""

    def __init__(self, service: Service, driver: Driver) -> None:
        self._service = service
        self._driver = driver
        self._slots = Slots(service.running, service.waiting)
        self._ready = Ready(driver, service.ready, service.ready_seconds)
        self._keeper = Keeper(
            driver, service.ceilings, most=service.kernels, most_of_one=service.kernels_of_one
        )
        self._stopping = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._report: ProbeReport | None = None
        self._probing = threading.Lock()

    def serve(self) -> None:
        """Serve until a signal says stop; return once every sandbox is dead."""
        listening = _listen(self._service)
        wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        report = self.report()
        _log.info("Listening at %s. %s", self._service.socket, report.sentence)
        with selectors.DefaultSelector() as selector:
            selector.register(listening, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select():
                    if key.fileobj is listening:
                        self._accept(listening)
        listening.close()
        with suppress(FileNotFoundError):
            self._service.socket.unlink()
        until = time.monotonic() + _STOP_SECONDS
        self._ready.close()
        self._keeper.close_all(_STOP_SECONDS)
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))

    def report(self, *, fresh: bool = False) -> ProbeReport:
        """Return the probe's answer; a good one is kept until a launch fails."""
        with self._probing:
            known = self._report
            if known is None or fresh or not known.ok:
                known = self._report = self._driver.probe()
                # After the probe: what is launched from now on knows the machine as it found it.
                self._ready.drop()
                if not known.ok:
                    _log.warning("No sandbox: %s", known.sentence)
            return known

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError as problem:
            _log.warning("A connection could not be accepted: %s", problem.strerror)
            return
        uid = _peer_uid(connection)
        if uid not in self._service.allowed:
            _log.warning("User %s is not allowed to ask for sandboxes.", uid)
            connection.close()
            return
        most = self._service.running + self._service.waiting + 4 * self._service.kernels + 16
        if len(self._threads) >= most:
            _refuse(connection, "busy", "The sandbox supervisor has too many connections.")
            return
        thread = threading.Thread(target=self._converse, args=(connection,), daemon=True)
        self._threads.add(thread)
        thread.start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._hear(connection)
        except OSError as problem:
            _log.info("A connection broke: %s", problem)
        finally:
            self._threads.discard(threading.current_thread())

    def _hear(self, connection: socket.socket) -> None:
        reader = MessageReader(max_body=MAX_JOB_BODY)
        try:
            message = _first_message(connection, reader)
            if message is None:
                return
            if message.kind == "probe":
                fresh = message.fields.get("fresh") is True
                connection.sendall(encode(encode_probe(self.report(fresh=fresh))))
                return
            if message.kind in KERNEL_KINDS:
                self._kernel(connection, reader, message)
                return
            if message.kind != "job":
                raise BadFrame("A conversation starts with a job, a probe or a kernel.")
            spec, deadline_ms = decode_job(message)
        except (BadFrame, BadJob) as problem:
            _refuse(connection, "bad_job", str(problem))
            return
        connection.setblocking(False)
        self._job(Asker(connection, reader), spec, time.monotonic() + deadline_ms / 1000)

    def _kernel(self, connection: socket.socket, reader: MessageReader, message: Message) -> None:
        report = self.report()
        if not report.ok:
            _refuse(connection, "driver_unavailable", report.sentence)
            return
        try:
            converse(
                self._keeper,
                KernelAsker(connection, reader),
                message,
                node=self._service.node,
                python=report.python,
            )
        except KeeperRefuses as refusal:
            _refuse(connection, refusal.code, str(refusal))
        except BadWorkFiles as problem:
            _refuse(connection, "bad_job", str(problem))
        except (LaunchFailed, NoDriver, NoFreeUid) as problem:
            self._report = None
            _log.warning("A kernel did not start: %s", problem)
            _refuse(connection, "driver_unavailable", str(problem))

    def _job(self, asker: Asker, spec: SandboxSpec, deadline: float) -> None:
        report = self.report()
        if lacking := report.lacks(spec.runtimes):
            asker.answer(_refusal("driver_unavailable", lacking))
            return

        def gave_up() -> bool:
            return asker.gave_up() or self._stopping.is_set()

        taken = not gave_up() and self._slots.take(deadline, gave_up)
        if not taken:
            if asker.cancelled:
                asker.answer(encode_result(SandboxResult(Reason.CANCELLED)))
                return
            full = "too many jobs wait" if taken is None else "none became free in time"
            asker.answer(_refusal("busy", f"No sandbox is free: {full}."))
            return
        try:
            result = self._run(asker, spec, deadline, report.python)
        except BadWorkFiles as problem:
            asker.answer(_refusal("bad_job", str(problem)))
            return
        except (LaunchFailed, NoDriver, NoFreeUid) as problem:
            # Whatever changed on the machine, the next job hears about it from a new probe.
            self._report = None
            _log.warning("Job %s did not start: %s", spec.correlation_id or "-", problem)
            asker.answer(_refusal("driver_unavailable", str(problem)))
            return
        finally:
            self._slots.give_back()
        _log.info(
            "Job %s ended: %s, %s ms",
            spec.correlation_id or "-",
            result.reason,
            result.stats.wall_ms,
        )
        asker.answer(encode_result(result))
        self._prepare(spec)

    def _prepare(self, spec: SandboxSpec) -> None:
        """Have sandboxes ready for the next jobs like this, while no other needs the time."""
        limits, _ = clamp(spec.limits, self._service.ceilings)
        try:
            # No more than may wait: one that ends meanwhile is not made anew for nobody.
            for _ in range(self._service.ready):
                if self._stopping.is_set() or self._slots.is_anybody_waiting():
                    return
                if not self._ready.prepare(spec, limits):
                    return
        except (LaunchFailed, NoDriver, NoFreeUid) as problem:
            self._report = None
            _log.warning("No sandbox was made ready: %s", problem)

    def _run(self, asker: Asker, spec: SandboxSpec, deadline: float, python: str) -> SandboxResult:
        limits, clamped = clamp(spec.limits, self._service.ceilings)
        live = self._ready.start(spec, limits)
        asker.tell(Message("started", {"python": python}))
        call = Call(
            live=live,
            spec=spec,
            limits=limits,
            clamped=clamped,
            listener=asker,
            deadline=min(deadline, time.monotonic() + limits.wall_ms / 1000),
            stopping=self._stopping.is_set,
            python=python,
        )
        return self._supervise(call)

    def _supervise(self, call: Call) -> SandboxResult:
        try:
            return call.run()
        except (NotDead, OSError) as problem:
            _log.error("A call failed in the supervisor: %s", problem)
            return SandboxResult(
                Reason.DRIVER_FAILED, detail="The supervisor failed.", clamped=call.clamped
            )
        finally:
            call.live.close()


def _listen(service: Service) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        # Nobody else listens here: the state folder's lock is ours.
        service.socket.unlink()
    folder = os.open(service.socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A socket's name has room for 107 bytes only; through the descriptor any depth will do.
        listening.bind(f"/proc/self/fd/{folder}/{service.socket.name}")
    finally:
        os.close(folder)
    # Other users are let in only where the operator named one; the credentials decide.
    others = service.allowed - {os.geteuid(), 0}
    service.socket.chmod(0o666 if others else 0o600)
    listening.listen(128)
    listening.setblocking(False)
    return listening


def _peer_uid(connection: socket.socket) -> int:
    size = struct.calcsize("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, uid, _ = struct.unpack("3i", raw)
    return int(uid)


def _first_message(connection: socket.socket, reader: MessageReader) -> Message | None:
    until = time.monotonic() + _FIRST_MESSAGE_SECONDS
    while (left := until - time.monotonic()) > 0:
        connection.settimeout(left)
        data = connection.recv(256 * 1024)
        if not data:
            return None
        for message in reader.feed(data):
            return message
    raise BadFrame("The message did not arrive in time.")


def _refusal(code: str, sentence: str) -> Message:
    return Message("refused", {"code": code, "sentence": sentence[:500]})


def _refuse(connection: socket.socket, code: str, sentence: str) -> None:
    with connection, suppress(OSError):
        connection.settimeout(1)
        connection.sendall(encode(_refusal(code, sentence)))
