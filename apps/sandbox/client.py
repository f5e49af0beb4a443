"""Ask the supervisor to run one program confined, and hand back what came of it.

Everything that comes back is untrusted: bytes first, judged by whoever asked.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypedDict

from django.conf import settings

from apps.domain.wire import BadFrame, Message, MessageReader, encode
from apps.sandbox.errors import JobRefused, KernelLost, SandboxBusy, SandboxUnavailable
from apps.sandbox.spec import (
    Clamp,
    Limits,
    Output,
    ProbeReport,
    ProbeStatus,
    Reason,
    SandboxResult,
    SandboxSpec,
    Stats,
)
from apps.sandboxd.job_wire import decode_result, encode_job
from apps.sandboxd.jobs import MAX_DEADLINE_MS, MAX_REPLY_BODY, BadJob, check_spec
from apps.sandboxd.limits import CEILINGS, clamp, read_limits
from apps.sandboxd.probe import decode_probe

__all__ = [
    "Around",
    "Clamp",
    "JobRefused",
    "Limits",
    "Output",
    "ProbeReport",
    "Reason",
    "SandboxBusy",
    "SandboxResult",
    "SandboxSpec",
    "SandboxUnavailable",
    "Stats",
    "available",
    "run",
]

_NOT_AN_ID: Final = re.compile(r"[^A-Za-z0-9._:-]")

OnOutput = Callable[[str, bytes], None]


class Around(TypedDict, total=False):
    """What stands around a job while it runs: who hears it, who may stop it, which supervisor.

    Functions that only hand these on take them as one.
    """

    on_output: OnOutput | None
    cancelled: Callable[[], bool] | None
    path: Path | None


_CONNECT_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 45.0
# After the deadline the supervisor still has to kill, collect and answer.
_GRACE_SECONDS: Final = 20.0
_LISTEN_SECONDS: Final = 0.2
_REMEMBER_SECONDS: Final = 5.0

_NOT_RUNNING: Final = "The sandbox supervisor is not running, so no code can be run."
NOT_CONFIGURED: Final = "No sandbox supervisor is configured (KAIZEN_SANDBOXD_SOCKET)."
NO_ANSWER: Final = "The sandbox supervisor did not answer in time."
NOT_ALLOWED: Final = "This user may not speak to the sandbox supervisor (its --allow-uid)."


def socket_path() -> Path:
    """Return where the supervisor listens, as the settings say."""
    named: str | os.PathLike[str] | None = getattr(settings, "KAIZEN_SANDBOXD_SOCKET", None)
    if not named:
        raise SandboxUnavailable(NOT_CONFIGURED)
    return Path(named)


def ceilings() -> Limits:
    """Return the most that this deployment gives to one call."""
    given: Mapping[str, object] = getattr(settings, "KAIZEN_SANDBOX_CEILINGS", {})
    return read_limits(given, CEILINGS)


@contextmanager
def connection(path: Path) -> Iterator[socket.socket]:
    """Connect to the supervisor, or raise SandboxUnavailable."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with link:
        link.settimeout(_CONNECT_SECONDS)
        try:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise SandboxUnavailable(_NOT_RUNNING) from problem
        try:
            # A socket's name has room for 107 bytes; through the descriptor any depth will do.
            link.connect(f"/proc/self/fd/{folder}/{path.name}")
        except PermissionError as problem:
            raise SandboxUnavailable(NOT_ALLOWED) from problem
        except OSError as problem:
            raise SandboxUnavailable(_NOT_RUNNING) from problem
        finally:
            os.close(folder)
        yield link


def run(
    spec: SandboxSpec,
    *,
    deadline_s: float,
    on_output: OnOutput | None = None,
    cancelled: Callable[[], bool] | None = None,
    path: Path | None = None,
) -> SandboxResult:
    """Run one program confined and return once all of it is dead.

    `deadline_s` bounds everything, the wait for a free sandbox included. Raises
    SandboxUnavailable where nothing was started, and JobRefused for a job that cannot be run.
    """
    limits, clamped = clamp(spec.limits, ceilings())
    # An id that came in from outside may hold anything; it only serves to find things again.
    known_as = _NOT_AN_ID.sub("-", spec.correlation_id)[:64]
    job = replace(spec, limits=limits, correlation_id=known_as)
    deadline_ms = min(MAX_DEADLINE_MS, max(1, int(deadline_s * 1000)))
    try:
        data = encode(encode_job(check_spec(job), deadline_ms=deadline_ms))
    except (BadJob, BadFrame) as problem:
        raise JobRefused(str(problem)) from problem
    with connection(path or socket_path()) as link:
        call = _Conversation(link, deadline_s, on_output, cancelled)
        result = call.hold(data)
    return replace(result, clamped=_joined(clamped, result.clamped))


def _joined(ours: tuple[Clamp, ...], theirs: tuple[Clamp, ...]) -> tuple[Clamp, ...]:
    """Record each wish once, as it was asked here and given there."""
    asked = {one.name: one.asked for one in ours}
    later = {one.name for one in theirs}
    return (
        *(one for one in ours if one.name not in later),
        *(replace(one, asked=asked.get(one.name, one.asked)) for one in theirs),
    )


class _Conversation:
    """One job over one connection."""

    def __init__(
        self,
        link: socket.socket,
        deadline_s: float,
        on_output: OnOutput | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self._link = link
        self._until = time.monotonic() + deadline_s + _GRACE_SECONDS
        self._on_output = on_output
        self._cancelled = cancelled
        self._told_to_stop = False
        self._started = False
        self._reader = MessageReader(max_body=MAX_REPLY_BODY)

    def hold(self, job: bytes) -> SandboxResult:
        try:
            self._link.settimeout(_GRACE_SECONDS)
            self._link.sendall(job)
        except OSError:
            # The supervisor may have refused and closed before it read all: its words still count.
            self._told_to_stop = True
        self._link.settimeout(_LISTEN_SECONDS)
        while time.monotonic() < self._until:
            self._maybe_cancel()
            try:
                data = self._link.recv(256 * 1024)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                return self._lost("The sandbox supervisor ended the conversation.")
            try:
                for message in self._reader.feed(data):
                    result = self._take(message)
                    if result is not None:
                        return result
            except BadFrame:
                return self._lost("The sandbox supervisor sent something unreadable.")
        return self._lost(NO_ANSWER)

    def _maybe_cancel(self) -> None:
        if self._told_to_stop or self._cancelled is None or not self._cancelled():
            return
        self._told_to_stop = True
        self._link.settimeout(_CONNECT_SECONDS)
        try:
            self._link.sendall(encode(Message("cancel")))
        except OSError:
            return  # the next read tells what became of it
        finally:
            self._link.settimeout(_LISTEN_SECONDS)

    def _take(self, message: Message) -> SandboxResult | None:
        if message.kind == "started":
            self._started = True
        elif message.kind == "output":
            stream = message.fields.get("stream")
            if self._on_output is not None and stream in ("stdout", "stderr"):
                self._on_output(str(stream), message.body)
        elif message.kind == "refused":
            raise refusal_of(message)
        elif message.kind == "result":
            return decode_result(message)
        else:
            raise BadFrame(f"Unknown message {message.kind[:40]!r}.")
        return None

    def _lost(self, sentence: str) -> SandboxResult:
        if not self._started:
            raise SandboxUnavailable(sentence)
        # The program had begun; what it did is lost together with its sandbox.
        return SandboxResult(Reason.DRIVER_FAILED, detail=sentence)


def refusal_of(message: Message) -> Exception:
    """Return what a refusal of the supervisor is raised as here."""
    sentence = str(message.fields.get("sentence", ""))[:500] or "The supervisor refused the job."
    kinds: dict[object, type[Exception]] = {
        "busy": SandboxBusy,
        "bad_job": JobRefused,
        "kernel_lost": KernelLost,
    }
    return kinds.get(message.fields.get("code"), SandboxUnavailable)(sentence)


class _Memory:
    """Remember an answer for a moment, so that a page of tools asks once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[Path, tuple[float, ProbeReport]] = {}


_memory = _Memory()


def available(
    *, fresh: bool = False, path: Path | None = None, patience: float = _PROBE_SECONDS
) -> ProbeReport:
    """Return whether code can run confined now, with a sentence for the operator.

    A first probe tries everything and takes its time. Whoever has less patience hears that no
    answer came, which is not remembered.
    """
    try:
        place = path or socket_path()
    except SandboxUnavailable as problem:
        return ProbeReport(ProbeStatus.NOT_RUNNING, problem.message)
    if not _memory.lock.acquire(timeout=patience):
        return _SILENT
    try:
        at, report = _memory.known.get(place, (0.0, None))
        if report is not None and not fresh and time.monotonic() - at < _REMEMBER_SECONDS:
            return report
        report = _ask(place, fresh=fresh, patience=patience)
        if report is not _SILENT or patience >= _PROBE_SECONDS:
            _memory.known[place] = (time.monotonic(), report)
        return report
    finally:
        _memory.lock.release()


_SILENT: Final = ProbeReport(ProbeStatus.FAILED, NO_ANSWER)


def _ask(place: Path, *, fresh: bool, patience: float) -> ProbeReport:
    reader = MessageReader(max_body=0)
    try:
        with connection(place) as link:
            link.settimeout(patience)
            link.sendall(encode(Message("probe", {"fresh": fresh})))
            while data := link.recv(64 * 1024):
                for message in reader.feed(data):
                    return decode_probe(message)
    except TimeoutError:
        return _SILENT
    except SandboxUnavailable as problem:
        return ProbeReport(ProbeStatus.NOT_RUNNING, problem.message)
    except (OSError, BadFrame) as problem:
        return ProbeReport(ProbeStatus.FAILED, f"The sandbox supervisor did not answer: {problem}")
    return ProbeReport(ProbeStatus.FAILED, NOT_ALLOWED)
