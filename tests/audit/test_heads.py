"""The newest seals stand outside the database: in a bounded file, and where one asks, elsewhere."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings

from apps.audit import heads
from apps.audit.heads import head_path
from apps.audit.models import AuditSeal
from apps.audit.sealing import seal_what_waits
from apps.audit.services import record
from apps.audit.verifying import verify_audit
from kaizen.environment import Environment

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def outside(tmp_path: Path) -> Iterator[Path]:
    with override_settings(KAIZEN_STATE_DIR=str(tmp_path)):
        yield tmp_path


class Keeper(http.server.BaseHTTPRequestHandler):
    """Somebody elsewhere who keeps what is sent."""

    kept: list[Any] = []
    status = 204

    def do_POST(self) -> None:
        self.kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    Keeper.kept, Keeper.status = [], 204
    server = http.server.HTTPServer(("127.0.0.1", 0), Keeper)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/heads?secret=of-theirs"
    server.shutdown()
    thread.join()
    server.server_close()


def sealed(count: int = 1) -> list[AuditSeal]:
    for number in range(count):
        record(actor="user:1", action="thing.done", subject=f"thing:{number}")
        assert seal_what_waits() == 1
    return list(AuditSeal.objects.order_by("id"))


def cut_the_tail() -> None:
    """Take the newest seal away with its rows, as an owner of the tables."""
    with connection.cursor() as cursor:
        for table in ("audit_sealedrow", "audit_auditrow", "audit_auditseal"):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute("SELECT max(id) FROM audit_auditseal")
        (last,) = cursor.fetchone()
        cursor.execute(
            "DELETE FROM audit_auditrow WHERE id IN"
            " (SELECT row_id FROM audit_sealedrow WHERE seal_id = %s)",
            [last],
        )
        cursor.execute("DELETE FROM audit_sealedrow WHERE seal_id = %s", [last])
        cursor.execute("DELETE FROM audit_auditseal WHERE id = %s", [last])
        for table in ("audit_sealedrow", "audit_auditrow", "audit_auditseal"):
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def test_the_file_forgets_its_oldest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "KEPT", 3)
    monkeypatch.setattr(heads, "ROOM", 10)
    seals = sealed(11)
    kept = [json.loads(line)["seal"] for line in head_path().read_text().splitlines()]
    assert kept == [seal.pk for seal in seals[-len(kept) :]]
    assert 3 <= len(kept) < 6
    assert verify_audit().sound
    cut_the_tail()
    assert not verify_audit().sound


def test_seals_are_sent_to_whoever_keeps_them_elsewhere(elsewhere: str) -> None:
    with override_settings(KAIZEN_AUDIT_HEAD_URL=elsewhere):
        (seal,) = sealed()
    assert Keeper.kept == [{"seal": seal.pk, "mac": seal.mac, "at": seal.sealed_at.isoformat()}]


def test_nothing_is_sent_unless_a_deployment_asks_for_it(elsewhere: str) -> None:
    sealed()
    assert Keeper.kept == []


def test_sealing_goes_on_while_nobody_keeps_them(
    elsewhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Keeper.status = 500
    with override_settings(KAIZEN_AUDIT_HEAD_URL=elsewhere):
        sealed(2)
    with override_settings(KAIZEN_AUDIT_HEAD_URL="http://127.0.0.1:1/?secret=of-theirs"):
        sealed()
    assert verify_audit().sound
    assert "of-theirs" not in "".join(capsys.readouterr())


def test_a_copy_that_was_kept_elsewhere_finds_a_cut_tail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sealed(3)
    copy = tmp_path / "copy.jsonl"
    head_path().rename(copy)
    cut_the_tail()
    call_command("audit", "verify")
    assert "a trail that was cut at its end looks whole here" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call_command("audit", "verify", "--heads", str(copy))
    assert "is not in the database" in capsys.readouterr().out
    with pytest.raises(CommandError, match="There is no file"):
        call_command("audit", "verify", "--heads", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "value", ["http://keeper.example/", "keeper.example", "https://", "ftp://a"]
)
def test_an_address_that_others_could_read_on_the_way_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="must begin with https://"):
        Environment({"X": value}).address("X")


def test_addresses_that_are_safe_or_absent_are_taken() -> None:
    for value in ("", "https://keeper.example/a", "http://127.0.0.1:9000/"):
        assert Environment({"X": value}).address("X") == value
