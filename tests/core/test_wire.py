"""Statements that travel together run in order, fail together, and leave a sound connection."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import (
    DataError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)
from django.test.utils import CaptureQueriesContext
from psycopg.pq import TransactionStatus

from apps.audit.models import AuditRow
from apps.audit.services import record
from apps.core import wire
from apps.core.deadlines import Deadline
from apps.core.prepared import gathering, insert_last
from apps.core.statements import bounded, was_cancelled
from apps.core.wire import Statement, exchange
from apps.rooms.services import room_last

DOUBLE = b"SELECT $1::int * 2"
HALVE = b"SELECT 10 / $1::int"


def double(number: int) -> Statement:
    return Statement(DOUBLE, [number])


def row(action: str) -> AuditRow:
    return AuditRow(actor="system:kaizen", action=action, subject="test:1")


def written(*actions: str) -> set[str]:
    return set(AuditRow.objects.filter(action__in=actions).values_list("action", flat=True))


@pytest.mark.django_db
def test_each_statement_gets_its_own_rows_in_the_order_that_was_sent() -> None:
    several = Statement(b"SELECT n, 'x' FROM generate_series(1, $1::int) AS n", [3])
    nothing = Statement(b"SELECT 1 WHERE $1::text IS NULL", ["a"])
    assert exchange([double(1), several, nothing, double(4)]) == [
        [(2,)],
        [(1, "x"), (2, "x"), (3, "x")],
        [],
        [(8,)],
    ]


@pytest.mark.django_db
def test_values_come_back_as_they_went() -> None:
    values = ["é' \\ ; --", None, 2**40, True]
    asked = Statement(b"SELECT $1::text, $2::text, $3::bigint, $4::boolean", values)
    for _ in range(3):
        assert exchange([asked]) == [[tuple(values)]]


@pytest.mark.django_db(transaction=True)
def test_where_one_fails_nothing_after_it_is_done_and_the_next_may_ask() -> None:
    put = Statement(
        b"INSERT INTO audit_auditrow (actor, action, subject, outcome, digest, correlation_id,"
        b" detail) VALUES ('a', $1, 's', '', '', '', '{}')",
        ["wire.after"],
    )
    with pytest.raises(DataError), transaction.atomic():
        exchange([double(1), Statement(HALVE, [0]), put], then_commit=True)
    assert not written("wire.after")
    assert exchange([double(3), Statement(HALVE, [5])]) == [[(6,)], [(2,)]]


@pytest.mark.django_db(transaction=True)
def test_the_last_statements_of_a_transaction_take_its_commit_along() -> None:
    with transaction.atomic():
        record(actor="a", action="wire.committed", subject="s")
        exchange([double(1)], then_commit=True)
        assert not connection.connection.pgconn.transaction_status
        connection.close()
    assert written("wire.committed")


@pytest.mark.django_db(transaction=True)
def test_what_ends_only_a_savepoint_commits_nothing() -> None:
    class Undone(Exception):
        pass

    with pytest.raises(Undone), transaction.atomic():
        with transaction.atomic():
            record(actor="a", action="wire.inner", subject="s")
            exchange([double(1)], then_commit=True)
        raise Undone
    assert not written("wire.inner")


@pytest.mark.django_db(transaction=True)
def test_a_statement_sees_what_was_committed_while_the_one_before_it_waited() -> None:
    with transaction.atomic():
        record(actor="a", action="wire.seen", subject="s")
    waits = Statement(b"SELECT 1 FROM (SELECT pg_advisory_xact_lock($1::bigint)) AS held", [77])
    looks = Statement(b"SELECT count(*) FROM audit_auditrow WHERE action = $1", ["wire.late"])
    held, answers = threading.Event(), []

    def ask() -> None:
        held.wait(10)
        try:
            with transaction.atomic():
                answers.append(exchange([waits, looks]))
        finally:
            connection.close()

    asking = threading.Thread(target=ask)
    asking.start()
    with transaction.atomic():
        exchange([waits])
        held.set()
        while not waiting():
            pass
        record(actor="a", action="wire.late", subject="s")
    asking.join(10)
    assert answers == [[[(1,)], [(1,)]]]


def waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return cursor.fetchone() is not None


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_the_server_ended_says_so_and_is_given_up() -> None:
    gone = Statement(b"SELECT pg_terminate_backend(pg_backend_pid()), $1::int", [1])
    with pytest.raises(OperationalError):
        exchange([gone, double(1)])
    assert connection.connection.closed
    connection.close()
    assert exchange([double(1)]) == [[(2,)]]


@pytest.mark.django_db(transaction=True)
def test_a_value_that_cannot_travel_breaks_nothing_of_the_connection() -> None:
    with transaction.atomic():
        record(actor="a", action="wire.before", subject="s")
        with pytest.raises(DataError):
            exchange([Statement(b"SELECT $1::text", ["\0"])])
    assert written("wire.before")


def counts(action: str) -> Statement:
    return Statement(b"SELECT count(*) FROM audit_auditrow WHERE action = $1", [action])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("breaks", [Statement(HALVE, [0]), Statement(b"SELECT $1::text", ["\0"])])
def test_a_bounded_block_is_undone_also_where_its_first_statement_fails(breaks: Statement) -> None:
    with room_last():
        record(actor="a", action="wire.outside", subject="s")
        with pytest.raises(DataError), bounded(Deadline.after(30)), room_last():
            exchange([breaks])
        with bounded(Deadline.after(30)), room_last():
            assert exchange([counts("wire.outside")]) == [[(1,)]]
            record(actor="a", action="wire.inside", subject="s")
        with pytest.raises(DataError), bounded(Deadline.after(30)), room_last():
            record(actor="a", action="wire.undone", subject="s")
            exchange([breaks])
    assert written("wire.outside", "wire.inside", "wire.undone") == {"wire.outside", "wire.inside"}


@pytest.mark.django_db(transaction=True)
def test_a_bounded_block_in_which_nothing_is_asked_costs_no_round_trip() -> None:
    class Undone(Exception):
        pass

    with room_last():
        with bounded(Deadline.after(30)), room_last():
            pass
        with pytest.raises(Undone), bounded(Deadline.after(30)), room_last():
            raise Undone
        assert connection.connection.pgconn.transaction_status == TransactionStatus.IDLE
        record(actor="a", action="wire.after", subject="s")
    assert written("wire.after")


@pytest.mark.django_db(transaction=True)
def test_a_bounded_block_ends_its_first_statement_in_time() -> None:
    sleeps = Statement(b"SELECT 1 FROM (SELECT pg_sleep($1::float8)) AS slept", [30.0])
    with room_last():
        with (
            pytest.raises(OperationalError) as ended,
            bounded(Deadline.after(0.05)),
            room_last(),
        ):
            exchange([sleeps])
        assert was_cancelled(ended.value)
        record(actor="a", action="wire.after", subject="s")
        assert exchange([Statement(b"SELECT current_setting($1)", ["statement_timeout"])]) == [
            [("0",)]
        ]
    assert written("wire.after")


@pytest.mark.django_db(transaction=True)
def test_what_the_server_forgot_is_said_to_it_again() -> None:
    exchange([double(1)])
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    with pytest.raises(ProgrammingError):
        exchange([double(1)])
    assert exchange([double(2)]) == [[(4,)]]


@pytest.mark.django_db(transaction=True)
def test_an_undone_transaction_costs_no_plan() -> None:
    class Undone(Exception):
        pass

    with pytest.raises(Undone), transaction.atomic():
        exchange([Statement(b"SELECT $1::int + 1000", [1])])
        raise Undone
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%+ 1000'"
        )
        assert cursor.fetchone() == (1,)


@pytest.mark.django_db(transaction=True)
def test_a_connection_keeps_so_many_plans_and_runs_the_rest_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection.close()
    monkeypatch.setattr(wire, "MAX_NAMES", 1)
    for _ in range(2):
        for number in range(5):
            text = b"SELECT $1::int + %d /* bounded */" % number
            assert exchange([double(1), Statement(text, [1])]) == [[(2,)], [(1 + number,)]]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%bounded%%'"
        )
        assert cursor.fetchone()[0] <= 1


@pytest.mark.django_db(transaction=True)
def test_every_statement_is_counted_where_statements_are_counted() -> None:
    with CaptureQueriesContext(connection) as captured:
        exchange([double(1), double(2)])
    assert [one["sql"] for one in captured.captured_queries] == [DOUBLE.decode()] * 2


# --- rows that are written last


@pytest.mark.django_db(transaction=True)
def test_rows_that_nobody_reads_back_are_written_with_the_commit() -> None:
    with room_last(gather=True):
        record(actor="a", action="wire.last", subject="s")
        assert not written("wire.last")
    assert written("wire.last")


@pytest.mark.django_db(transaction=True)
def test_what_undoes_a_transaction_takes_its_last_rows_along() -> None:
    class Undone(Exception):
        pass

    with pytest.raises(Undone), room_last(gather=True):
        record(actor="a", action="wire.undone", subject="s")
        raise Undone
    with transaction.atomic():
        assert not written("wire.undone")


@pytest.mark.django_db(transaction=True)
def test_what_undoes_a_savepoint_takes_its_rows_along_and_no_others() -> None:
    class Undone(Exception):
        pass

    with room_last(gather=True):
        record(actor="a", action="wire.kept", subject="s")
        with pytest.raises(Undone), transaction.atomic():
            record(actor="a", action="wire.inside", subject="s")
            raise Undone
    assert written("wire.kept", "wire.inside") == {"wire.kept"}


@pytest.mark.django_db(transaction=True)
def test_a_row_that_cannot_be_written_last_undoes_everything() -> None:
    broken: Any = row("wire.broken")
    broken.actor = "x" * 500
    with pytest.raises(DataError), room_last(gather=True):
        record(actor="a", action="wire.before", subject="s")
        insert_last(broken)
    assert not written("wire.before", "wire.broken")


@pytest.mark.django_db
def test_a_row_outside_of_any_gathering_is_written_at_once() -> None:
    insert_last(row("wire.now"))
    assert written("wire.now")


@pytest.mark.django_db(transaction=True)
def test_a_gathered_row_is_not_written_twice() -> None:
    with transaction.atomic(), gathering() as last:
        one = row("wire.once")
        insert_last(one)
        assert (len(last), one._state.adding) == (1, False)
