"""How is tampering with the audit trail found? Every way is tried, by an owner of the tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import override_settings

from apps.audit import sealing, verifying
from apps.audit.heads import head_path
from apps.audit.marks import SEAL_LOCK
from apps.audit.models import AuditRow, AuditSeal, SealedRow
from apps.audit.sealing import seal_batch, seal_what_waits
from apps.audit.services import record
from apps.audit.verifying import verify_audit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def outside(tmp_path: Path) -> Iterator[Path]:
    """Keep the seals that are written down outside apart from all others."""
    with override_settings(KAIZEN_STATE_DIR=str(tmp_path)):
        yield tmp_path


@pytest.fixture
def trail() -> None:
    """Nine rows under three seals."""
    for number in range(9):
        write(number)
        if number % 3 == 2:
            seal_what_waits()


def write(number: int, **detail: Any) -> None:
    record(
        actor="user:1",
        action="thing.done",
        subject=f"thing:{number}",
        outcome="ok",
        detail={"number": number, "words": "ä ≠ a", **detail},
    )


@contextmanager
def owning_the_tables() -> Iterator[Any]:
    """Act as somebody who may switch the refusing triggers off."""
    tables = ("audit_auditrow", "audit_auditseal", "audit_sealedrow")
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield cursor
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def faults() -> list[str]:
    return verify_audit().faults


def test_an_untouched_trail_is_sound(trail: None) -> None:
    write(9)
    verdict = verify_audit()
    assert verdict.sound
    assert (verdict.seals, verdict.sealed_rows, verdict.unsealed_rows) == (3, 9, 1)
    assert verdict.heads_checked == 3


def test_an_empty_trail_is_sound() -> None:
    assert seal_what_waits() == 0
    assert verify_audit().sound


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_auditrow SET outcome = 'denied'",
        "DELETE FROM audit_auditrow",
        "UPDATE audit_auditseal SET rows = 1",
        "DELETE FROM audit_auditseal",
        "UPDATE audit_sealedrow SET row_id = 99",
        "DELETE FROM audit_sealedrow",
    ],
)
def test_the_database_itself_refuses_changes(trail: None, statement: str) -> None:
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        connection.cursor().execute(statement)
    assert verify_audit().sound


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("actor", "user:2"),
        ("action", "thing.undone"),
        ("subject", "thing:99"),
        ("outcome", ""),
        ("digest", "sha256:00"),
        ("correlation_id", "x"),
        ("detail", '{"number": 4}'),
        ("at", "2020-01-01T00:00:00Z"),
    ],
)
def test_an_edit_of_any_column_is_found(trail: None, column: str, value: str) -> None:
    with owning_the_tables() as cursor:
        cursor.execute(
            f"UPDATE audit_auditrow SET {column} = %s WHERE subject = 'thing:4'",  # noqa: S608
            [value],
        )
    second = AuditSeal.objects.order_by("id")[1]
    assert faults() == [f"The 3 rows under seal {second.pk} are not the rows that were sealed."]


def test_a_deleted_row_is_named(trail: None) -> None:
    row = AuditRow.objects.get(subject="thing:4")
    seal = AuditSeal.objects.order_by("id")[1]
    with owning_the_tables() as cursor:
        cursor.execute("DELETE FROM audit_auditrow WHERE id = %s", [row.pk])
    assert faults() == [f"Row {row.pk} under seal {seal.pk} is gone."]


def test_a_row_deleted_with_its_membership_is_found(trail: None) -> None:
    row = AuditRow.objects.get(subject="thing:4")
    with owning_the_tables() as cursor:
        cursor.execute("DELETE FROM audit_auditrow WHERE id = %s", [row.pk])
        cursor.execute("DELETE FROM audit_sealedrow WHERE row_id = %s", [row.pk])
    assert len(faults()) == 1


def test_rows_that_changed_places_are_found(trail: None) -> None:
    one, other = (AuditRow.objects.get(subject=f"thing:{n}") for n in (3, 5))
    with owning_the_tables() as cursor:
        cursor.execute("UPDATE audit_auditrow SET id = -1 WHERE id = %s", [one.pk])
        cursor.execute("UPDATE audit_auditrow SET id = %s WHERE id = %s", [one.pk, other.pk])
        cursor.execute("UPDATE audit_auditrow SET id = %s WHERE id = -1", [other.pk])
    assert len(faults()) == 1


def test_rows_that_changed_seals_are_found(trail: None) -> None:
    first, second, _ = AuditSeal.objects.order_by("id")
    one, other = (AuditRow.objects.get(subject=f"thing:{n}").pk for n in (0, 3))
    with owning_the_tables() as cursor:
        cursor.execute(
            "UPDATE audit_sealedrow SET seal_id = %s WHERE row_id = %s", [second.pk, one]
        )
        cursor.execute(
            "UPDATE audit_sealedrow SET seal_id = %s WHERE row_id = %s", [first.pk, other]
        )
    assert len(faults()) == 2


def test_a_membership_put_in_later_is_found(trail: None) -> None:
    write(99)
    invented = AuditRow.objects.get(subject="thing:99")
    first = AuditSeal.objects.order_by("id")[0]
    SealedRow.objects.bulk_create([SealedRow(row_id=invented.pk, seal=first)])
    assert faults() == [f"The 3 rows under seal {first.pk} are not the rows that were sealed."]


def test_a_second_row_under_a_sealed_number_is_found(trail: None) -> None:
    row = AuditRow.objects.get(subject="thing:0")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_auditrow (id, at, actor, action, subject, outcome, digest,"
            " correlation_id, detail) VALUES (%s, '2020-01-01', 'user:2', 'a', 'b', '', '', '',"
            " '{}')",
            [row.pk],
        )
    assert len(faults()) == 1


def test_a_cut_tail_is_found_by_what_was_written_down_outside(trail: None) -> None:
    last = AuditSeal.objects.order_by("-id")[0]
    with owning_the_tables() as cursor:
        cursor.execute(
            "DELETE FROM audit_auditrow r USING audit_sealedrow s"
            " WHERE s.row_id = r.id AND s.seal_id = %s",
            [last.pk],
        )
        cursor.execute("DELETE FROM audit_sealedrow WHERE seal_id = %s", [last.pk])
        cursor.execute("DELETE FROM audit_auditseal WHERE id = %s", [last.pk])
    assert len(faults()) == 1
    assert f"Seal {last.pk}, written down" in faults()[0]
    # Sealing on does not cover the cut.
    write(10)
    seal_what_waits()
    assert any(f"Seal {last.pk}, written down" in fault for fault in faults())
    # Without the writing outside, the database alone looks whole, and the check says so.
    head_path().unlink()
    assert verify_audit().sound
    assert verify_audit().heads_checked == 0


def test_everything_emptied_at_once_is_found(trail: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE audit_auditrow, audit_sealedrow, audit_auditseal CASCADE")
    assert len(faults()) == 3


def test_a_seal_taken_out_of_the_middle_is_found(trail: None) -> None:
    second = AuditSeal.objects.order_by("id")[1]
    with owning_the_tables() as cursor:
        cursor.execute("ALTER TABLE audit_sealedrow DISABLE TRIGGER ALL")
        cursor.execute("ALTER TABLE audit_auditseal DISABLE TRIGGER ALL")
        cursor.execute("DELETE FROM audit_auditseal WHERE id = %s", [second.pk])
        cursor.execute("ALTER TABLE audit_sealedrow ENABLE TRIGGER ALL")
        cursor.execute("ALTER TABLE audit_auditseal ENABLE TRIGGER ALL")
    found = faults()
    assert f"Rows name seal {second.pk}, which is gone." in found
    assert any("does not follow the seal before it" in fault for fault in found)
    assert any(f"Seal {second.pk}, written down" in fault for fault in found)
    assert len(found) == 3
    with owning_the_tables() as cursor:
        # Else the flush between tests would meet rows without their seal.
        cursor.execute("DELETE FROM audit_sealedrow WHERE seal_id = %s", [second.pk])


def test_a_seal_made_without_the_key_is_found(trail: None) -> None:
    write(9)
    with override_settings(KAIZEN_AUDIT_KEY="somebody else's key"):
        seal_what_waits()
    assert len(faults()) == 1


def test_a_row_that_commits_late_is_taken_by_the_next_seal() -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            write(0)
            began.set()
            go_on.wait(10)
        connection.close()

    late = threading.Thread(target=slow)
    late.start()
    assert began.wait(10)
    write(1)
    assert seal_what_waits() == 1
    go_on.set()
    late.join(10)
    assert seal_what_waits() == 1
    assert verify_audit().sound


def test_a_row_later_than_anybody_expected_is_taken_when_the_whole_trail_is_looked_through(
    trail: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_auditrow (at, actor, action, subject, outcome, digest,"
            " correlation_id, detail) VALUES (now() - interval '3 hours', 'user:1', 'late', 'a:1',"
            " '', '', '', '{}')"
        )
    assert seal_what_waits() == 0
    assert verify_audit().unsealed_rows == 1
    monkeypatch.setattr(sealing, "WHOLE_TRAIL_EVERY", 1)
    assert seal_what_waits() == 1
    assert verify_audit().sound


def test_much_is_sealed_in_batches_that_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "SEAL_BATCH", 10)
    for number in range(25):
        write(number)
    assert seal_what_waits() == 25
    assert list(AuditSeal.objects.order_by("id").values_list("rows", flat=True)) == [10, 10, 5]
    assert verify_audit().sound


def test_only_one_worker_seals_at_a_time() -> None:
    write(0)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SEAL_LOCK])
            held.set()
            go_on.wait(10)
        connection.close()

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(10)
    assert seal_batch() is None
    go_on.set()
    other.join(10)
    assert seal_batch() is not None


def test_faults_are_counted_beyond_what_is_kept(
    trail: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "FAULTS_KEPT", 2)
    with owning_the_tables() as cursor:
        cursor.execute("DELETE FROM audit_auditrow")
    verdict = verify_audit()
    assert (verdict.fault_count, len(verdict.faults)) == (9, 2)


def test_the_command_says_so_and_ends_accordingly(
    trail: None, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("audit", "verify")
    assert (
        "3 seals over 9 rows checked, 0 rows wait for their seal: sound." in capsys.readouterr().out
    )
    with owning_the_tables() as cursor:
        cursor.execute("UPDATE audit_auditrow SET actor = 'user:2' WHERE subject = 'thing:4'")
    with pytest.raises(SystemExit) as ended:
        call_command("audit", "verify", "--json")
    assert ended.value.code == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["sound"], told["fault_count"], told["heads_checked"]) == (False, 1, 3)


@pytest.mark.parametrize("line", ["{", "[]", '{"seal": 1}'])
def test_a_broken_line_outside_is_a_fault_and_not_a_crash(
    trail: None, line: str, outside: Path
) -> None:
    with head_path().open("a", encoding="utf-8") as heads:
        heads.write(line + "\n")
    assert faults() == ["Line 4 of audit-head.jsonl cannot be read."]
