"""Who is executing a call right now, and has it been told to stop?"""

from __future__ import annotations

import contextvars
import threading
from datetime import timedelta
from types import TracebackType
from typing import Any

import structlog
from django.db import DatabaseError, connection
from django.db.models.functions import Now

from apps.boundary.lost import nobody_waits
from apps.boundary.steps.consume import EXECUTOR_SECONDS
from apps.domain.tooling import CallState
from apps.runs.models import Call, Run

STOP_IS_FELT_AFTER = 1.0
"""Seconds between two looks at the run; each renews the hold as well."""

log = structlog.get_logger(__name__)


class Hold:
    """An executor's hold on a dispatched call, renewed by a thread until the block ends.

    The executor's own connection is given back before the wait. A renewal that fails because the
    database is away is tried again; a hold that is lost for good cancels the execution.
    """

    def __init__(self, *, call_id: Any, run_id: Any, executor: str) -> None:
        self._call_id = call_id
        self._run_id = run_id
        self._executor = executor
        self._cancelled = threading.Event()
        self._done = threading.Event()
        # In this context, so that its lines in the log carry the same correlation id.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._renew_until_done,), daemon=True
        )

    def cancelled(self) -> bool:
        """Whether the run was stopped or lost whoever waited for it, or the hold was lost."""
        return self._cancelled.is_set()

    def __enter__(self) -> Hold:
        connection.close()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _renew_until_done(self) -> None:
        try:
            while not self._done.wait(STOP_IS_FELT_AFTER):
                self._renew()
        finally:
            connection.close()

    def _renew(self) -> None:
        try:
            held = Call.objects.filter(
                pk=self._call_id, state=CallState.DISPATCHED.value, executor=self._executor
            ).update(executor_expires_at=Now() + timedelta(seconds=EXECUTOR_SECONDS))
            stopped = Run.objects.filter(nobody_waits(), pk=self._run_id).exists()
        except DatabaseError as away:
            log.warning("hold_not_renewed", call=str(self._call_id), error=type(away).__name__)
            return
        finally:
            connection.close()
        if held != 1 or stopped:
            self._cancelled.set()
