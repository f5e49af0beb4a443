"""Keep a sandbox ready for the next program of the kind that was asked for last.

A program that waits needs nothing of its job before it begins, so its sandbox can be launched while
nobody waits for it. Each serves one job, or none: what has run a program is never used again, and
what nobody wants for a while is ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from apps.sandboxd.driver import Driver
from apps.sandboxd.jobs import SandboxSpec
from apps.sandboxd.launch import LaunchFailed
from apps.sandboxd.limits import Limits
from apps.sandboxd.live import LiveSandbox, NotDead

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    shape: SandboxSpec
    live: LiveSandbox
    expiry: threading.Timer


class Ready:
    """The sandboxes that wait for a job, at most `most` of them."""

    def __init__(self, driver: Driver, most: int, seconds: float) -> None:
        self._driver = driver
        self._most = most
        self._seconds = seconds
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._launching: list[SandboxSpec] = []
        self._hoping: list[SandboxSpec] = []
        self._looks = 0
        self._closed = False

    def start(self, spec: SandboxSpec, limits: Limits) -> LiveSandbox:
        """Return a sandbox for a job: one that waits for its like, or else one launched now.

        One that is being launched already is there sooner than another would be.
        """
        live = self._take(spec.shape(limits)) if spec.waits else None
        if live is None:
            return self._driver.start(spec, limits)
        try:
            live.stage(spec.workspace)
        except BaseException as problem:
            _end(live)
            if isinstance(problem, OSError):
                raise LaunchFailed(f"The launch failed: {problem.strerror}.") from problem
            raise
        return live

    def prepare(self, spec: SandboxSpec, limits: Limits) -> bool:
        """Launch one for a job like this and tell whether it waits now; raise as a launch does.

        What waits for another kind of job makes room, since that was asked for longer ago.
        """
        # A sandbox with a network holds a door to it open, which nobody has asked for yet.
        if not spec.waits or spec.network:
            return False
        shape = spec.shape(limits)
        with self._changed:
            alike = sum(1 for one in self._waiting if one.shape == shape)
            if self._closed or alike + len(self._launching) >= self._most:
                return False
            self._launching.append(shape)
            others, looks = self._make_room(shape), self._looks
        try:
            for one in others:
                _end(one.live)
            return self._keep(shape, self._driver.start(shape, limits), looks)
        finally:
            with self._changed:
                self._launching.remove(shape)
                self._changed.notify_all()

    def drop(self) -> None:
        """End all that wait: the machine may have changed since they were launched."""
        with self._changed:
            self._looks += 1
            waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.expiry.cancel()
            _end(one.live)

    def close(self) -> None:
        """End all that wait, and keep none from now on."""
        with self._changed:
            self._closed = True
        self.drop()

    def _take(self, shape: SandboxSpec) -> LiveSandbox | None:
        while (found := self._await(shape)) is not None:
            if found.live.is_waiting():
                return found.live
            _log.warning("A waiting sandbox ended or said something; it is not used.")
            _end(found.live)
        return None

    def _await(self, shape: SandboxSpec) -> _Waiting | None:
        """Take out one that waits, or wait for one under way that nobody else waits for."""
        with self._changed:
            while (found := self._remove(lambda one: one.shape == shape)) is None:
                if self._launching.count(shape) <= self._hoping.count(shape):
                    return None
                self._hoping.append(shape)
                self._changed.wait()
                self._hoping.remove(shape)
            return found

    def _keep(self, shape: SandboxSpec, live: LiveSandbox, looks: int) -> bool:
        expiry = threading.Timer(self._seconds, lambda: self._expire(one))
        expiry.daemon = True
        one = _Waiting(shape, live, expiry)
        try:
            with self._changed:
                if not self._closed and looks == self._looks:
                    # Before it can be found: whoever takes it cancels a timer that runs.
                    expiry.start()
                    self._waiting.append(one)
                    _log.info("A sandbox is ready for the next program.")
                    return True
        except RuntimeError:
            _log.warning("The supervisor has no thread to watch over a waiting sandbox.")
        _end(live)
        return False

    def _expire(self, one: _Waiting) -> None:
        if self._remove(lambda other: other is one) is not None:
            _end(one.live)

    def _make_room(self, shape: SandboxSpec) -> list[_Waiting]:
        """Take out what has to make room for one that is launched; the lock is held."""
        excess = len(self._waiting) + len(self._launching) - self._most
        taken = (self._remove(lambda one: one.shape != shape) for _ in range(excess))
        return [one for one in taken if one is not None]

    def _remove(self, wanted: Callable[[_Waiting], bool]) -> _Waiting | None:
        with self._changed:
            found = next(filter(wanted, self._waiting), None)
            if found is not None:
                self._waiting.remove(found)
                found.expiry.cancel()
            return found


def _end(live: LiveSandbox) -> None:
    try:
        live.end()
    except NotDead:
        _log.error("A waiting sandbox did not die; its user id and handles are kept apart.")
    except OSError as problem:
        _log.error("A waiting sandbox could not be ended: %s", problem.strerror)
