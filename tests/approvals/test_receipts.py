"""A receipt is for one call, one run, one person, one set of arguments, and one time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.approvals.errors import ReceiptSpent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.approvals.services import spend_receipt
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.services import decide_approval
from apps.runs.models import Call, Run
from tests.factories.effects import Letters
from tests.factories.rooms import claimed_run, crossed, make_room

pytestmark = pytest.mark.django_db(transaction=True)

PROCESSES = 2


@pytest.fixture
def approved(run: Run, member: User) -> Call:
    call = crossed(run, "send_letter", {"to": "anna"}).call
    request = ApprovalRequest.objects.get()
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )
    return Call.objects.get(pk=call.pk)


def pending(call: Call) -> None:
    Receipt.objects.all().delete()
    ApprovalRequest.objects.update(state="pending")


def of_another_run(call: Call) -> None:
    run = call.run
    other = claimed_run(make_room(run.member, run.agent), run.agent, run.member)
    Receipt.objects.update(run=other)


def changed(**columns: str) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        Receipt.objects.update(**columns)

    return change


BAD: dict[str, Callable[[Call], None]] = {
    "pending": pending,
    "of another run": of_another_run,
    "of another tool": changed(tool="other"),
    "for other arguments": changed(arguments_digest="sha256:" + "0" * 64),
    "for another contract": changed(descriptor_digest="sha256:" + "0" * 64),
    "expired": changed(expires_at="2020-01-01T00:00Z"),
    "used": changed(spent_at="2020-01-01T00:00Z"),
}


@pytest.mark.parametrize("how", list(BAD))
def test_no_other_receipt_reaches_the_executor(approved: Call, letters: Letters, how: str) -> None:
    BAD[how](approved)
    pipeline.execute_waiting(call_id=approved.pk, executor="worker")
    approved.refresh_from_db()
    assert letters.sent == []
    assert approved.outcome == ("" if how == "pending" else approved.outcome)
    assert approved.outcome in ("", "refused", "denied")
    assert not AuditRow.objects.filter(action="receipt.spent").exists()


def test_spending_is_for_its_own_person(approved: Call, guest: User, member: User) -> None:
    with pytest.raises(ReceiptSpent):
        spend_receipt(call=approved, actor=guest)
    assert spend_receipt(call=approved, actor=member).spent_at is not None
    with pytest.raises(ReceiptSpent):
        spend_receipt(call=approved, actor=member)


def test_of_two_processes_that_consume_at_once_one_does(
    approved: Call, letters: Letters, tmp_path: Path
) -> None:
    database = connection.settings_dict
    url = "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**database)
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.approvals.consumer",
                str(letters.path),
                str(approved.pk),
                f"process-{number}",
            ],
            env={**os.environ, "DATABASE_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(60) for process in processes] == [0] * PROCESSES
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert len(letters.sent) == 1
    assert AuditRow.objects.filter(action="receipt.spent").count() == 1
    assert AuditRow.objects.filter(action="chat.tool.write").count() == 1
