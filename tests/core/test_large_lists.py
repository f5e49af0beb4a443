"""Administrators see ten thousand of everything with as many questions as a handful, by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import User
from apps.runs.models import Call, Run
from tests.factories.many import make_calls, make_many, scans_of

pytestmark = pytest.mark.django_db

LISTS = (
    "admin:runs_run_changelist",
    "admin:runs_call_changelist",
    "admin:approvals_approvalrequest_changelist",
    "admin:audit_auditrow_changelist",
)
MANY = 10_000


@pytest.fixture(scope="module", autouse=True)
def many(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Ten thousand of everything, made once for this file and never committed."""
    with django_db_blocker.unblock(), transaction.atomic():
        make_many(MANY, name="many")
        yield
        transaction.set_rollback(True)


@pytest.fixture
def ines(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ines", password="a long enough secret"))
    return client


def asked(client: Client, address: str) -> list[str]:
    """Open a page and return the statements that it took."""
    client.get(address)  # what a process learns once is learned
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(address)
    assert answer.status_code == 200
    return [query["sql"] for query in captured.captured_queries]


def is_bounded_count(statement: str) -> bool:
    """Whether a statement only counts as far as anybody pages."""
    return "COUNT(*)" in statement and "LIMIT 10000" in statement


def pages_of(statements: list[str]) -> list[str]:
    """The statements that fetch what a page shows."""
    return [one for one in statements if one.startswith("SELECT") and not is_bounded_count(one)]


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_many_costs_as_many_questions_as_one_of_few(ines: Client, name: str) -> None:
    address = reverse(name)
    statements = asked(ines, address)
    assert [table for one in pages_of(statements) for table in scans_of(one)] == []
    column = "at" if "auditrow" in name else "created_at"
    few = asked(ines, f"{address}?{column}_from=2999-01-01")
    # An empty page asks for nobody's name and counts nothing beside it.
    assert len(statements) <= len(few) + 3
    assert len(statements) <= 12


@pytest.mark.parametrize("filters", ["?p=2", "?p=100"])
@pytest.mark.parametrize("name", LISTS)
def test_later_pages_cost_the_same(ines: Client, name: str, filters: str) -> None:
    assert len(asked(ines, reverse(name) + filters)) == len(asked(ines, reverse(name)))


def test_questions_are_picked_by_their_state_at_the_price_of_one_more(ines: Client) -> None:
    address = reverse("admin:approvals_approvalrequest_changelist")
    all_of_them = len(asked(ines, address))
    assert len(asked(ines, f"{address}?state__exact=approved")) <= all_of_them + 1


@pytest.mark.parametrize(
    "filters",
    ["?actor=member-many", "?action=call.settled", "?action=call.*", "?correlation_id=many-77"],
)
def test_the_audit_list_is_filtered_by_index(ines: Client, filters: str) -> None:
    statements = asked(ines, reverse("admin:audit_auditrow_changelist") + filters)
    assert [table for one in pages_of(statements) for table in scans_of(one)] == []


def test_the_page_of_a_run_costs_the_same_with_few_calls_and_with_many(ines: Client) -> None:
    run = Run.objects.earliest("created_at")
    page = reverse("admin:runs_run_change", args=[run.pk])
    few = len(asked(ines, page))
    make_calls(run, 300)
    assert len(asked(ines, page)) == few


def test_a_run_and_a_call_are_found_by_index_among_many(ines: Client) -> None:
    call = Call.objects.earliest("created_at")
    for kind, ident in (("call", call.pk), ("run", call.run_id)):
        statements = asked(ines, reverse(f"admin:runs_{kind}_change", args=[ident]))
        assert len(statements) <= 14
        assert [table for one in pages_of(statements) for table in scans_of(one)] == []


def test_an_export_of_many_goes_out_in_pieces(ines: Client) -> None:
    answer = ines.get(reverse("admin:audit_export", args=["jsonl"]) + "?actor=member-many")
    pieces = list(answer.streaming_content)
    assert len(pieces) >= 5
    assert sum(piece.count(b"\n") for piece in pieces) >= MANY
