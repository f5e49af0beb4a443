"""Old months go by policy, and what went stays provable."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import override_settings

from apps.audit.models import AuditRow, AuditSeal, Retention, SealedRow
from apps.audit.retention import Month, NotRetained, drop_month, months_beyond, retain
from apps.audit.sealing import seal_what_waits
from apps.audit.tasks import retain as retain_task
from apps.audit.verifying import verify_audit

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEXT = date(2020, 1, 1), date(2020, 2, 1)
TODAY = date(2020, 12, 15)


@pytest.fixture(autouse=True)
def outside(tmp_path: Path) -> Iterator[Path]:
    with override_settings(KAIZEN_STATE_DIR=str(tmp_path)):
        yield tmp_path


@pytest.fixture(autouse=True)
def months(transactional_db: None) -> Iterator[None]:
    """Two old months with partitions of their own, gone after the test however it ended."""
    with connection.cursor() as cursor:
        for month in (OLD, NEXT):
            cursor.execute("SELECT audit_ensure_month(%s)", [month])
    yield
    with connection.cursor() as cursor:
        for month in (OLD, NEXT):
            cursor.execute(f"DROP TABLE IF EXISTS {Month(month).partition}")


def write(number: int, month: date = OLD) -> None:
    AuditRow.objects.bulk_create(
        [
            AuditRow(
                at=f"{month:%Y-%m}-{10 + number % 10}T12:00Z",
                actor="user:1",
                action="thing.done",
                subject=f"thing:{number}",
            )
        ]
    )


@pytest.fixture
def trail() -> None:
    """Five rows of the old month, and three of the next; the second seal has rows of both."""
    for number in range(3):
        write(number)
    seal_what_waits()
    for number in (3, 4):
        write(number)
    write(5, NEXT)
    _seal_everything()
    for number in (6, 7):
        write(number, NEXT)
    _seal_everything()


def _seal_everything() -> None:
    """Seal what has a moment of long ago, which no ordinary sealing looks for."""
    from apps.audit.sealing import seal_batch

    assert seal_batch() is not None


def owner(statement: str, *values: Any) -> None:
    """Do something as an owner of the tables, with the refusing triggers off."""
    tables = ("audit_auditrow", "audit_auditseal", "audit_sealedrow", "audit_retention")
    with transaction.atomic(), connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(statement, values)
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def test_a_dropped_month_is_said_and_not_missed(trail: None) -> None:
    dropped = drop_month(Month(OLD))
    assert (dropped.rows, AuditRow.objects.filter(action="thing.done").count()) == (5, 3)
    verdict = verify_audit()
    assert verdict.faults == []
    assert (verdict.seals, verdict.sealed_rows, verdict.dropped_rows) == (3, 3, 5)
    assert verdict.dropped_months == ["2020-01"]
    # Seals and memberships stay, and the dropping is in the trail itself.
    assert (AuditSeal.objects.count(), SealedRow.objects.count()) == (3, 8)
    row = AuditRow.objects.get(action="audit.retained")
    assert (row.subject, row.detail) == ("audit:2020-01", {"rows": 5, "seals_in_part": 1})


def test_one_month_after_the_other_may_go(trail: None) -> None:
    drop_month(Month(OLD))
    drop_month(Month(NEXT))
    verdict = verify_audit()
    assert verdict.faults == []
    assert (verdict.dropped_rows, verdict.dropped_months) == (8, ["2020-01", "2020-02"])
    seal_what_waits()
    assert verify_audit().sound


def test_what_is_left_of_a_seal_is_still_proven(trail: None) -> None:
    drop_month(Month(OLD))
    owner("UPDATE audit_auditrow SET actor = 'user:2' WHERE subject = 'thing:5'")
    second = AuditSeal.objects.order_by("id")[1]
    assert verify_audit().faults == [
        f"The 3 rows under seal {second.pk} are not the rows that were sealed."
    ]


def test_rows_that_nobody_dropped_are_still_missed(trail: None) -> None:
    drop_month(Month(OLD))
    gone = AuditRow.objects.get(subject="thing:6")
    owner("DELETE FROM audit_auditrow WHERE id = %s", gone.pk)
    assert any(f"Row {gone.pk} under seal" in fault for fault in verify_audit().faults)


def test_a_row_put_back_into_a_dropped_month_is_found(trail: None) -> None:
    first = AuditRow.objects.get(subject="thing:0").pk
    drop_month(Month(OLD))
    AuditRow.objects.bulk_create(
        [AuditRow(id=first, actor="user:1", action="thing.done", subject="thing:0")]
    )
    assert len(verify_audit().faults) == 2


def test_a_membership_taken_out_of_a_dropped_month_is_found(trail: None) -> None:
    first = AuditRow.objects.get(subject="thing:0").pk
    drop_month(Month(OLD))
    owner("DELETE FROM audit_sealedrow WHERE row_id = %s", first)
    assert any("seals name 4 of them" in fault for fault in verify_audit().faults)


def test_a_record_made_without_the_key_excuses_nothing(trail: None) -> None:
    with override_settings(KAIZEN_AUDIT_KEY="somebody else's key"):
        drop_month(Month(OLD))
    faults = verify_audit().faults
    assert faults[0] == "The record that 2020-01 was dropped is not the one that was written."
    assert sum("is gone" in fault for fault in faults) == 5


@pytest.mark.parametrize(
    "change",
    ["rows = 4", "ids = '[[0, 999999999]]'", "month = '2019-01-01'", "remainders = '[]'"],
)
def test_an_edited_record_is_found(trail: None, change: str) -> None:
    drop_month(Month(OLD))
    owner(f"UPDATE audit_retention SET {change}")  # noqa: S608 - words of this test
    assert not verify_audit().sound


def test_a_removed_record_is_missed_outside_too(trail: None) -> None:
    drop_month(Month(OLD))
    owner("DELETE FROM audit_retention")
    faults = verify_audit().faults
    assert any("The dropping of 2020-01, written down" in fault for fault in faults)


def test_the_record_itself_is_append_only(trail: None) -> None:
    drop_month(Month(OLD))
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        Retention.objects.update(rows=1)


def test_a_month_with_rows_that_wait_for_their_seal_stays(trail: None) -> None:
    write(8)
    with pytest.raises(NotRetained, match="1 rows of 2020-01 are not sealed yet"):
        drop_month(Month(OLD))
    assert AuditRow.objects.filter(action="thing.done").count() == 9


def test_nothing_is_dropped_from_a_trail_that_does_not_verify(trail: None) -> None:
    owner("UPDATE audit_auditrow SET actor = 'user:2' WHERE subject = 'thing:0'")
    with pytest.raises(NotRetained, match="does not verify"):
        retain(2, today=TODAY)
    assert Retention.objects.count() == 0


def test_the_policy_keeps_the_present_month_and_as_many_before_it() -> None:
    assert [str(m) for m in months_beyond(11, today=TODAY)] == []
    assert [str(m) for m in months_beyond(10, today=TODAY)] == ["2020-01"]
    assert [str(m) for m in months_beyond(9, today=TODAY)] == ["2020-01", "2020-02"]


def test_the_command_drops_what_is_too_old(trail: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("audit", "retain", "--months", "12", "--dry-run")
    assert capsys.readouterr().out == "2020-01 would be dropped.\n2020-02 would be dropped.\n"
    call_command("audit", "retain", "--months", "12")
    assert capsys.readouterr().out == "2020-01: 5 rows dropped.\n2020-02: 3 rows dropped.\n"
    call_command("audit", "verify")
    assert "8 rows were dropped by retention: 2020-01, 2020-02." in capsys.readouterr().out
    with pytest.raises(CommandError, match="keeps everything"):
        call_command("audit", "retain")


def test_beat_drops_nothing_unless_a_policy_is_set(trail: None) -> None:
    retain_task()
    assert Retention.objects.count() == 0
    with override_settings(KAIZEN_AUDIT_KEEP_MONTHS=12):
        retain_task()
    assert Retention.objects.count() == 2


def test_beat_goes_on_where_a_month_may_not_be_dropped(trail: None) -> None:
    owner("UPDATE audit_auditrow SET actor = 'user:2' WHERE subject = 'thing:0'")
    with override_settings(KAIZEN_AUDIT_KEEP_MONTHS=12):
        retain_task()
    assert Retention.objects.count() == 0
