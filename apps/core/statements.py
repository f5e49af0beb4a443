"""How long may the database take over what a deadline covers?

Code of ours that waits for a statement cannot be cancelled from outside, so the database does it:
what runs inside `bounded` gets a statement timeout for the rest of its time. The setting travels
with the savepoint that opens the block and with its release, so it costs no statement of its own.
The savepoint itself travels with the first statement that it is to undo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DatabaseError, connection

from apps.core.deadlines import Deadline
from apps.core.wire import AHEAD

TIGHTEN_AFTER = 1.0
"""Seconds after which the time that is left is set anew: many short statements add up too."""

_OPENS = re.compile(r"SAVEPOINT (\S+)\Z")
_SETTLES = re.compile(r"RELEASE SAVEPOINT (\S+)\Z")
_UNDOES = re.compile(r"ROLLBACK TO SAVEPOINT (\S+)\Z")


class OutOfTime(Exception):
    """The time of what asked the database is over."""


@contextmanager
def bounded(deadline: Deadline) -> Iterator[None]:
    """Bound every statement inside by a deadline. Inside a transaction; a savepoint comes first."""
    with connection.execute_wrapper(_Bound(deadline)):
        yield


def was_cancelled(error: BaseException) -> bool:
    """Tell whether the database ended a statement because its time was over."""
    return isinstance(error, DatabaseError) and isinstance(
        error.__cause__, psycopg.errors.QueryCanceled
    )


class _Bound:
    """Rides on the statements of a block; its outermost savepoint carries the time."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._carrier = ""
        # The carrier's statement, until there is something to undo.
        self._held = ""
        self._set_at: float | None = None

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        if isinstance(sql, str) and params is None:
            if opens := _OPENS.match(sql):
                if not self._carrier:
                    self._carrier, self._held = opens[1], sql
                    return None
                self._send_held(context)
                return execute(sql, params, many, context)
            if settles := _SETTLES.match(sql):
                if settles[1] == self._carrier:
                    if self._held:
                        return None
                    sql = f"{sql}; SET LOCAL statement_timeout TO DEFAULT"
                return execute(sql, params, many, context)
            if undoes := _UNDOES.match(sql):
                if self._held and undoes[1] == self._carrier:
                    return None
                # The setting goes with whatever else is undone.
                return execute(sql, params, many, context)
        if self._deadline.passed:
            raise OutOfTime
        if self._held and AHEAD in context:
            return self._with_held(execute, sql, params, many, context)
        self._send_held(context)
        if self._set_at is None or self._set_at - self._deadline.remaining > TIGHTEN_AFTER:
            self._send(context, self._setting())
        return execute(sql, params, many, context)

    def _with_held(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Run the first statement, with the carrier before it in one round trip."""
        ahead = context[AHEAD]
        ahead += [self._held, self._setting()]
        try:
            return execute(sql, params, many, context)
        finally:
            if not ahead:
                self._held = ""

    def _send_held(self, context: dict[str, Any]) -> None:
        if self._held:
            self._send(context, f"{self._held}; {self._setting()}")
            self._held = ""

    @staticmethod
    def _send(context: dict[str, Any], text: str) -> None:
        """Send what nobody asked for, and fail as what was asked for would."""
        current = context["connection"]
        with current.wrap_database_errors:
            current.connection.execute(text)

    def _setting(self) -> str:
        self._set_at = self._deadline.remaining
        # Zero would mean no limit at all.
        return f"SET LOCAL statement_timeout = {max(1, int(self._set_at * 1000))}"
