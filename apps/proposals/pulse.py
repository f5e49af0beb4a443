"""How does a running test show that it lives? A heartbeat that also carries its last lines."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import structlog
from django.db import InterfaceError, OperationalError, connection
from django.db.models.functions import Now

from apps.proposals.models import ProposalTest

log = structlog.get_logger(__name__)

CLAIM_SECONDS = 15
"""A worker renews its claim several times within this; after it, another worker may take over."""

TAIL_CHARACTERS = 16_000
_TICK = 1.0
_RENEW_EVERY = 4


class Pulse:
    """Renew a test's claim from a thread of its own, and write new output at most once a second.

    `lost` is set once the claim is gone: another worker has the test, or the draft has changed.
    """

    def __init__(self, *, test_id: Any, executor: str) -> None:
        self.lost = threading.Event()
        self._test_id = test_id
        self._executor = executor
        self._tail = ""
        self._fresh = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="test-pulse", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def feed(self, stream: str, chunk: bytes) -> None:
        """Take what the tests printed, on either stream; only the tail is kept."""
        text = readable(chunk)
        with self._lock:
            self._tail = (self._tail + text)[-TAIL_CHARACTERS:]
            self._fresh = True

    def _beat(self) -> None:
        ticks = 0
        try:
            while not self._over.wait(_TICK):
                ticks += 1
                with self._lock:
                    text = self._tail if self._fresh else None
                    self._fresh = False
                if text is None and ticks % _RENEW_EVERY:
                    continue
                if not self._renew(text):
                    self.lost.set()
                    return
        finally:
            connection.close()

    def _renew(self, text: str | None) -> bool:
        changes: dict[str, Any] = {} if text is None else {"output": text}
        try:
            held = ProposalTest.objects.filter(
                pk=self._test_id, executor=self._executor, state=ProposalTest.State.RUNNING
            ).update(
                executor_expires_at=Now() + timedelta(seconds=CLAIM_SECONDS),
                updated_at=Now(),
                **changes,
            )
        except (OperationalError, InterfaceError) as gone:
            # The claim outlives a short absence of the database; its end decides, not this.
            log.warning("test_pulse_missed", error=type(gone).__name__)
            return True
        finally:
            connection.close()
        return held == 1


def readable(raw: bytes) -> str:
    """Return untrusted output as text that the database takes and a page can show."""
    return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")
