"""How is the audit trail read, filtered and taken out?"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission as PermissionRow
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.audit import exporting
from apps.audit.models import AuditRow
from apps.audit.sealing import seal_what_waits
from apps.audit.services import record
from apps.core.admin import BoundedPaginator
from apps.core.correlation import bind_correlation_id

pytestmark = pytest.mark.django_db
LIST = "/admin/audit/auditrow/"


@pytest.fixture
def auditor(client: Client) -> Client:
    user = User.objects.create_user("ines", is_staff=True, display_name="Ines Moreau")
    user.user_permissions.set(
        PermissionRow.objects.filter(codename__in=["view_auditrow", "view_auditseal"])
    )
    client.force_login(user)
    return client


@pytest.fixture
def mara(db: None) -> User:
    return User.objects.create_user("mara", display_name="Mara Lindqvist")


@pytest.fixture
def trail(mara: User) -> None:
    bind_correlation_id("first")
    record(actor=mara, action="proposal.created", subject="packageproposal:1", outcome="ok")
    record(actor=mara, action="proposal.submitted", subject="packageproposal:1")
    bind_correlation_id("second")
    record(actor="agent:scribe", action="call.settled", subject="call:7", outcome="refused",
           detail={"code": "=cmd()", "number": 3})  # fmt: skip


def found(client: Client, query: str) -> list[str]:
    """The actions of the rows that a filter keeps."""
    answer = client.get(LIST + query)
    assert answer.status_code == 200
    return [row.action for row in answer.context["cl"].result_list]


@pytest.mark.parametrize(
    ("query", "actions"),
    [
        ("", ["call.settled", "proposal.submitted", "proposal.created"]),
        ("?action=proposal.created", ["proposal.created"]),
        ("?action=proposal.*", ["proposal.submitted", "proposal.created"]),
        ("?actor=mara", ["proposal.submitted", "proposal.created"]),
        ("?actor=agent:scribe", ["call.settled"]),
        ("?actor=nobody", []),
        ("?subject=call:7", ["call.settled"]),
        ("?correlation_id=first", ["proposal.submitted", "proposal.created"]),
        ("?correlation_id=first&action=proposal.created", ["proposal.created"]),
        ("?q=second", ["call.settled"]),
        ("?q=mara", ["proposal.submitted", "proposal.created"]),
        ("?q=packageproposal:1", ["proposal.submitted", "proposal.created"]),
        ("?at_from=2020-01-01&at_to=2020-01-02", []),
    ],
)
def test_filters_keep_what_they_say(
    auditor: Client, trail: None, query: str, actions: list[str]
) -> None:
    assert [one for one in found(auditor, query) if one != "user.signed_in"] == actions


def test_both_days_of_a_range_are_in_it(auditor: Client, trail: None) -> None:
    today = AuditRow.objects.get(action="call.settled").at.date()
    before = today - timedelta(days=1)
    assert "call.settled" in found(auditor, f"?at_from={today}&at_to={today}")
    assert "call.settled" in found(auditor, f"?at_from={before}")
    assert "call.settled" not in found(auditor, f"?at_to={before}")
    # What is no day is no filter.
    assert "call.settled" in found(auditor, "?at_from=soon")


def test_people_are_named_and_the_number_of_queries_is_constant(
    auditor: Client, mara: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        record(actor=mara, action="thing.done", subject=f"thing:{number}")
    with django_assert_max_num_queries(9):
        answer = auditor.get(LIST)
    assert "Mara Lindqvist" in answer.content.decode()


def test_a_row_shows_what_the_same_request_caused(auditor: Client, trail: None) -> None:
    row = AuditRow.objects.get(action="proposal.created")
    seen = auditor.get(reverse("admin:audit_auditrow_change", args=[row.pk])).content.decode()
    assert "proposal.submitted" in seen
    assert "Mara Lindqvist" in seen
    assert "call.settled" not in seen


def test_nothing_can_be_changed_here(auditor: Client, trail: None) -> None:
    row = AuditRow.objects.get(action="proposal.created")
    assert auditor.get(LIST + "add/").status_code == 403
    assert auditor.get(reverse("admin:audit_auditrow_delete", args=[row.pk])).status_code == 403
    assert (
        "_save"
        not in auditor.get(reverse("admin:audit_auditrow_change", args=[row.pk])).content.decode()
    )


def test_the_trail_is_for_those_who_may_read_it(client: Client, trail: None) -> None:
    client.force_login(User.objects.create_user("staff", is_staff=True))
    row = AuditRow.objects.get(action="proposal.created")
    for address in (
        LIST,
        LIST + "export/csv/",
        reverse("admin:audit_auditrow_change", args=[row.pk]),
        "/admin/audit/auditseal/",
    ):
        assert client.get(address).status_code == 403


def test_what_is_listed_is_exported_as_csv(auditor: Client, trail: None) -> None:
    answer = auditor.get(LIST + "export/csv/?correlation_id=second")
    text = b"".join(answer.streaming_content).decode()
    head, row = csv.reader(io.StringIO(text))
    assert head == list(exporting.FIELDS)
    assert row[2:5] == ["agent:scribe", "call.settled", "call:7"]
    assert json.loads(row[8]) == {"code": "=cmd()", "number": 3}
    assert "kaizen-audit.csv" in answer["Content-Disposition"]


def test_what_is_listed_is_exported_as_json_lines(auditor: Client, trail: None) -> None:
    answer = auditor.get(LIST + "export/jsonl/?actor=mara")
    rows = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert [row["action"] for row in rows] == ["proposal.submitted", "proposal.created"]
    assert rows[0]["detail"] == {}
    assert AuditRow.objects.get(action="audit.exported").detail == {
        "form": "jsonl",
        "filters": ["actor"],
    }
    assert auditor.get(LIST + "export/xml/").status_code == 404


def test_an_export_goes_on_exactly_where_a_piece_ended(
    mara: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "BATCH", 3)
    moment = timezone.now()
    AuditRow.objects.bulk_create(
        # Rows of one moment are told apart by their number alone.
        AuditRow(actor="user:1", action=f"a.{n}", subject="s:1", at=moment)
        for n in range(10)
    )
    text = "".join(exporting.stream(AuditRow.objects.all(), exporting.encode_json_lines))
    assert [json.loads(line)["action"] for line in text.splitlines()] == [
        f"a.{n}" for n in reversed(range(10))
    ]


@pytest.mark.django_db(transaction=True)
def test_an_export_from_an_event_loop_is_the_same(mara: User, trail: None) -> None:
    async def gather() -> str:
        rows = AuditRow.objects.all()
        return "".join([piece async for piece in exporting.stream_later(
            rows, exporting.encode_csv, exporting.csv_head())])  # fmt: skip

    assert asyncio.run(gather()) == "".join(
        exporting.stream(AuditRow.objects.all(), exporting.encode_csv, exporting.csv_head())
    )


def test_no_cell_is_a_formula() -> None:
    row = AuditRow(id=1, at=timezone.now(), actor="=1+1", action="+a", subject="@b", outcome="-")
    (line,) = csv.reader(io.StringIO(exporting.encode_csv([row])))
    assert line[2:6] == ["'=1+1", "'+a", "'@b", "'-"]


def test_lists_count_within_a_bound(trail: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPaginator, "BOUND", 2)
    pages = BoundedPaginator(AuditRow.objects.order_by("-id"), 1)
    with CaptureQueriesContext(connection) as asked:
        assert (pages.count, pages.num_pages, pages.bounded) == (2, 2, True)
    assert "LIMIT 2" in asked[0]["sql"]


def test_seals_are_listed_and_shown(
    auditor: Client, trail: None, settings: Any, tmp_path: Any
) -> None:
    settings.KAIZEN_STATE_DIR = str(tmp_path)
    seal_what_waits()
    answer = auditor.get("/admin/audit/auditseal/")
    assert answer.status_code == 200
    (seal,) = answer.context["cl"].result_list
    page = auditor.get(f"/admin/audit/auditseal/{seal.pk}/change/").content.decode()
    assert seal.mac in page


@pytest.mark.parametrize("question", ["at_from=x&id=x", "nonsense=1", "subject=%00", "id=%00"])
def test_an_export_with_filters_that_make_no_sense_is_refused(
    auditor: Client, trail: None, question: str
) -> None:
    assert auditor.get(f"{LIST}export/csv/?{question}").status_code == 400
    assert not AuditRow.objects.filter(action="audit.exported").exists()
