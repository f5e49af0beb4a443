"""How do several statements reach the database in one round trip, each with a plan that it keeps?

A statement is prepared for a connection when it first goes over it, and from then on only its name
and its values travel. What is sent together runs in order, and each statement sees what was
committed when its own turn came. Where one fails, the server skips those after it.

This is the one place that speaks to PostgreSQL below cursors: a cursor costs more than most of what
is asked through it.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

MAX_NAMES = 300
"""Statements that a connection keeps plans of; any further one is planned every time."""

# After these the server must be asked anew what a statement is: it knows the name no more, or the
# tables behind it have changed.
_FORGOTTEN = frozenset({b"26000", b"0A000"})

AHEAD = "ahead"
"""Where who rides on a statement may leave others, without values, that are to travel before it."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, which names its values as the server does ($1, $2 and so on), and they."""

    text: bytes
    values: Sequence[Any] | None
    """Nothing where it has none and is not worth a plan."""


def exchange(statements: Sequence[Statement], *, then_commit: bool = False) -> list[Rows]:
    """Run statements in one round trip and return the rows of each.

    Those that end a transaction may take its commit along: what they lock is then held for no
    round trip more.
    """
    current = connections[DEFAULT_DB_ALIAS]
    current.ensure_connection()
    current.validate_no_broken_transaction()
    if current.execute_wrappers:
        # Whoever rides on statements is told of each, and may hold one back or change what is set.
        return [_wrapped(current, one) for one in statements]
    with _told(current, statements), current.wrap_database_errors:
        wire = _wire_of(current.connection)
        # Before anything is sent: a value that cannot travel breaks nothing.
        packed = [wire.packed(one) for one in statements]
        return wire.exchange(
            current.connection, packed, commit=then_commit and is_outermost(current)
        )


def is_outermost(current: Any = None) -> bool:
    """Tell whether the innermost open block is the whole transaction, which may be committed."""
    current = current or connections[DEFAULT_DB_ALIAS]
    return bool(
        current.in_atomic_block
        and current.commit_on_exit
        and not current.savepoint_ids
        and not current.needs_rollback
    )


def _wrapped(current: Any, one: Statement) -> Rows:
    """Run one statement through what rides on statements, as Django's cursors do."""

    def execute(sql: Any, params: Any, many: bool, context: Any) -> Rows:
        asked, ahead = Statement(sql.encode(), params), context[AHEAD]
        with _told(current, [asked]), current.wrap_database_errors:
            wire = _wire_of(current.connection)
            packed = [wire.packed(Statement(text.encode(), None)) for text in ahead]
            packed.append(wire.packed(asked))
            # From here on they are sent.
            ahead.clear()
            return wire.exchange(current.connection, packed, commit=False)[-1]

    executor: Any = execute
    for wrapper in reversed(current.execute_wrappers):
        executor = partial(wrapper, executor)
    context = {"connection": current, "cursor": None, AHEAD: []}
    return cast(Rows, executor(one.text.decode(), one.values, False, context))


@contextmanager
def _told(current: Any, statements: Sequence[Statement]) -> Iterator[None]:
    """Count and log statements as Django does, where it does."""
    if not current.queries_logged:
        yield
        return
    with ExitStack() as stack:
        for one in statements:
            cursor = current.make_debug_cursor(None)
            stack.enter_context(cursor.debug_sql(one.text.decode(), one.values))
        yield


def _wire_of(connection: Any) -> _Wire:
    known = connection.__dict__.get("_kaizen_wire")
    if known is None:
        known = connection._kaizen_wire = _Wire(connection)
    return cast(_Wire, known)


class _Wire:
    """Our end of one connection, and what its server knows by name."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pgconn = connection.pgconn
        self._known: dict[tuple[bytes, Any], tuple[bytes, Any]] = {}
        self._named = 0
        self._values: Any = Transformer(connection)
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def exchange(
        self, connection: psycopg.Connection[Any], packed: Sequence[_Packed], *, commit: bool
    ) -> list[Rows]:
        """Send statements, with begin and commit around them where they are due; return the rows.

        Raises what the first of them that failed says.
        """
        with connection.lock:
            try:
                sent = self._send(connection, packed, commit=commit)
                results, failed = self._receive(sent)
                self._pgconn.exit_pipeline_mode()
            except BaseException:
                # Nobody knows what the server will still say to this, so nobody is to hear it.
                connection.close()
                raise
        if failed is not None:
            if failed.error_field(psycopg.pq.DiagnosticField.SQLSTATE) in _FORGOTTEN:
                self._known.clear()
            raise error_from_result(failed, encoding=connection.info.encoding)
        return results

    def packed(self, one: Statement) -> _Packed:
        """Return a statement as it travels."""
        if one.values is None:
            return _Packed(one.text, None, (), ())
        values = self._values.dump_sequence(one.values, [PyFormat.AUTO] * len(one.values))
        return _Packed(one.text, values, self._values.types, self._values.formats)

    def _send(
        self, connection: psycopg.Connection[Any], packed: Sequence[_Packed], *, commit: bool
    ) -> list[_Sent]:
        pgconn = self._pgconn
        begin = not connection.autocommit and pgconn.transaction_status == TransactionStatus.IDLE
        pgconn.enter_pipeline_mode()
        sent = []
        if begin:
            pgconn.send_query_params(b"BEGIN", None)
            sent.append(_Sent())
        for one in packed:
            if one.values is None:
                pgconn.send_query_params(one.text, None)
                sent.append(_Sent(loads=Transformer(connection)))
                continue
            key = (one.text, one.types)
            known = self._known.get(key)
            if known is None and len(self._known) >= MAX_NAMES:
                pgconn.send_query_params(one.text, one.values, one.types, one.formats)
                sent.append(_Sent(loads=Transformer(connection)))
                continue
            if known is None:
                self._named += 1
                known = b"kaizen_%d" % self._named, Transformer(connection)
                pgconn.send_prepare(known[0], one.text, one.types)
                sent.append(_Sent(prepares=(key, known)))
            pgconn.send_query_prepared(known[0], one.values, one.formats)
            sent.append(_Sent(loads=known[1]))
        if commit:
            pgconn.send_query_params(b"COMMIT", None)
            sent.append(_Sent())
        pgconn.pipeline_sync()
        while pgconn.flush():
            # The server may have to say something before it takes more.
            self._wait(select.POLLIN | select.POLLOUT)
            pgconn.consume_input()
        return sent

    def _receive(self, sent: Sequence[_Sent]) -> tuple[list[Rows], Any]:
        """Return the rows of each statement, and the first result that is a failure, if any."""
        rows: list[Rows] = []
        failed: Any = None
        for one in sent:
            result = self._next()
            if result is None:
                raise psycopg.OperationalError("The database ended the connection.")
            # Each result is followed by nothing, which ends it.
            self._next()
            if result.status not in _DONE:
                failed = failed or result
            elif one.prepares is not None:
                self._known[one.prepares[0]] = one.prepares[1]
            elif one.loads is not None:
                rows.append(self._rows(one.loads, result))
        if failed is None or self._pgconn.status != ConnStatus.BAD:
            synced = self._next()
            if synced is None or synced.status != ExecStatus.PIPELINE_SYNC:
                raise psycopg.OperationalError("The database lost its place in the conversation.")
        return rows, failed

    def _rows(self, loads: Any, result: Any) -> Rows:
        if not result.nfields:
            return []
        loads.set_pgresult(result)
        rows = cast(Rows, loads.load_rows(0, result.ntuples, tuple))
        # What a statement returned may be large, and its reader lives as long as the connection.
        loads.set_pgresult(None)
        return rows

    def _next(self) -> Any:
        """Return the next result, waiting for it where another thread may go on."""
        pgconn = self._pgconn
        while pgconn.is_busy():
            self._wait(select.POLLIN)
            pgconn.consume_input()
        return pgconn.get_result()

    def _wait(self, events: int) -> None:
        if events != select.POLLIN:
            self._poll.modify(self._pgconn.socket, events)
        self._poll.poll()
        if events != select.POLLIN:
            self._poll.modify(self._pgconn.socket, select.POLLIN)


_DONE = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


@dataclass(frozen=True, slots=True)
class _Packed:
    """A statement whose values are as they travel."""

    text: bytes
    values: Sequence[Any] | None
    types: tuple[int, ...]
    formats: Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Sent:
    """One message of a round trip: what is known once it was done, and what reads its rows."""

    prepares: tuple[tuple[bytes, Any], tuple[bytes, Any]] | None = None
    loads: Any = None
