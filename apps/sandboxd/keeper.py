"""Keep the sandboxes that live on: who owns which, how many there may be, and how they are found.

Askers come and go; what they opened stays under its key until it is closed, has been idle or has
lived for too long, or the supervisor ends. A key never changes hands.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from apps.sandboxd.driver import Driver
from apps.sandboxd.exchange import Exchange, State
from apps.sandboxd.jobs import Reason
from apps.sandboxd.kernel_wire import Closed, Opening
from apps.sandboxd.kernels import Kernel
from apps.sandboxd.limits import Limits, clamp

_log = logging.getLogger(__name__)

_DEATH_SECONDS: Final = 15.0
# A kernel that was used a moment ago is not ended to make room for another owner's.
_UNUSED_SECONDS: Final = 60.0


class KeeperRefuses(RuntimeError):
    """A request about a kernel that cannot be met; `code` is for the asker."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def lost() -> KeeperRefuses:
    """Return the refusal of a request to a kernel that is gone, or is another owner's."""
    # The same words for one that is not there and for one of somebody else.
    return KeeperRefuses("kernel_lost", "There is no such kernel any more: its state is lost.")


@dataclass(slots=True)
class Keeper:
    """All living sandboxes of this supervisor."""

    driver: Driver
    ceilings: Limits
    most: int = 8
    most_of_one: int = 3
    _kernels: dict[str, Kernel] = field(default_factory=dict)
    _starting: dict[str, str] = field(default_factory=dict)
    _change: threading.Condition = field(default_factory=threading.Condition)
    _closing: bool = False

    def open(self, opening: Opening) -> tuple[Kernel, bool]:
        """Return the kernel of a key, started now if there is none, and whether it is new.

        Raises KeeperRefuses, and what a launch raises.
        """
        place = self._place_for(opening)
        if isinstance(place, Kernel):
            return place, False
        try:
            kernel = self._start(opening)
        finally:
            with self._change:
                self._starting.pop(opening.key, None)
                self._change.notify_all()
        return kernel, True

    def _place_for(self, opening: Opening) -> Kernel | None:
        """Return the living kernel of this key, or None with a place reserved for a new one."""
        while True:
            with self._change:
                while opening.key in self._starting:
                    self._change.wait()
                if self._closing:
                    raise KeeperRefuses("busy", "The sandbox supervisor is stopping.")
                known = self._kernels.get(opening.key)
                if known is not None and known.state is not State.ENDED:
                    self._demand_owner(known, opening.owner)
                    return known
                spare = self._spare(opening.owner)
                if spare is None:
                    self._starting[opening.key] = opening.owner
                    return None
            spare.end(Reason.CANCELLED, "It was ended to make room for another one.")
            spare.join(_DEATH_SECONDS)

    def _spare(self, owner: str) -> Kernel | None:
        """Return a kernel that has to go first, if any; raise KeeperRefuses where none may."""
        mine = [one for one in self._kernels.values() if one.owner == owner]
        if len(mine) + [*self._starting.values()].count(owner) >= self.most_of_one:
            return _longest_idle(mine, unused_for=0.0, whose="You have")
        if len(self._kernels) + len(self._starting) >= self.most:
            every = [*self._kernels.values()]
            return _longest_idle(every, unused_for=_UNUSED_SECONDS, whose="This node has")
        return None

    def _start(self, opening: Opening) -> Kernel:
        limits, _ = clamp(opening.spec.limits, self.ceilings)
        live = self.driver.start(opening.spec, limits)
        try:
            kernel = Kernel(
                key=opening.key,
                owner=opening.owner,
                generation=secrets.token_hex(16),
                live=live,
                limits=limits,
                terms=opening.terms,
                on_end=self._forget,
            )
        except BaseException:
            live.kill()
            live.reap()
            live.close()
            raise
        with self._change:
            self._kernels[opening.key] = kernel
        kernel.start()
        kernel.ready.wait()
        if kernel.reason is not None:
            kernel.join()
            raise KeeperRefuses("start_failed", f"The kernel did not start. {kernel.detail}")
        return kernel

    def find(self, *, key: str, owner: str, generation: str) -> Kernel:
        """Return exactly this living kernel of this owner, or raise KeeperRefuses."""
        with self._change:
            kernel = self._kernels.get(key)
        if kernel is None or kernel.state is State.ENDED:
            raise lost()
        self._demand_owner(kernel, owner)
        if not hmac.compare_digest(kernel.generation, generation):
            raise lost()
        return kernel

    def _demand_owner(self, kernel: Kernel, owner: str) -> None:
        if not hmac.compare_digest(kernel.owner, owner):
            _log.warning("A kernel of one owner was asked for by another.")
            raise lost()

    def carry_out(self, kernel: Kernel, exchange: Exchange) -> None:
        """Hand in a request and return once it is answered; the caller holds the kernel's turn.

        One that ended before it began with the request is lost: nothing of that was carried out.
        """
        kernel.submit(exchange)
        exchange.finished.wait()
        if not exchange.begun:
            raise lost()

    def close(self, *, key: str, owner: str) -> Closed:
        """End a kernel; return once everything of it is dead."""
        with self._change:
            kernel = self._kernels.get(key)
        if kernel is None:
            return Closed(was_there=False)
        self._demand_owner(kernel, owner)
        kernel.end(Reason.CANCELLED, "It was closed.")
        kernel.join()
        reason = kernel.reason or Reason.DRIVER_FAILED
        return Closed(True, reason, kernel.detail, kernel.farewell_said)

    def close_all(self, seconds: float) -> None:
        """End every kernel, and wait a bounded time for it."""
        with self._change:
            self._closing = True
            kernels = [*self._kernels.values()]
        for kernel in kernels:
            kernel.end(Reason.CANCELLED, "The sandbox supervisor stopped.")
        until = time.monotonic() + seconds
        for kernel in kernels:
            kernel.join(max(0.0, until - time.monotonic()))

    def _forget(self, kernel: Kernel) -> None:
        with self._change:
            if self._kernels.get(kernel.key) is kernel:
                del self._kernels[kernel.key]
            self._change.notify_all()


def _longest_idle(kernels: list[Kernel], *, unused_for: float, whose: str) -> Kernel:
    now = time.monotonic()
    # One with a farewell is a session, which others still count on; one whose turn is taken is just
    # given its files.
    idle = [
        kernel
        for kernel in kernels
        if kernel.state is State.IDLE
        and now - kernel.used_at >= unused_for
        and not kernel.terms.farewell
        and not kernel.turn.locked()
    ]
    if not idle:
        raise KeeperRefuses("busy", f"{whose} as many kernels as there may be, and all are in use.")
    return min(idle, key=lambda one: one.used_at)
