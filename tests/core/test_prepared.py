"""Statements that are made once say, read and write exactly what the models would."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, models
from django.db.models import CharField, F, UUIDField
from django.db.models.signals import post_init
from django.db.transaction import TransactionManagementError

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.audit.models import AuditRow
from apps.core.prepared import Change, Given, NotOnDisk, Prepared, given_fields, insert
from apps.domain.tooling import CallState, Outcome
from apps.runs.models import Call, Run
from kaizen.liveness import PooledConnection
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db


def fields(row: models.Model) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.fixture
def run() -> Run:
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent), agent, member)


BY_SLUG = Prepared(
    lambda: Agent.objects.select_related("owner").filter(slug=Given("slug", CharField()))
)


def test_a_row_is_the_same_instance_that_the_query_set_makes(run: Run) -> None:
    quick = BY_SLUG.first(slug="scribe")
    usual = Agent.objects.select_related("owner").get(slug="scribe")
    assert quick is not None
    assert (quick, fields(quick), fields(quick.owner)) == (
        usual,
        fields(usual),
        fields(usual.owner),
    )
    assert quick._state.adding is False
    assert quick._state.db == usual._state.db
    quick.description = "Changed"
    quick.save(update_fields=["description", "updated_at"])
    usual.refresh_from_db()
    assert usual.description == "Changed"


def test_what_was_not_asked_for_is_read_when_it_is_looked_at(run: Run) -> None:
    some = Prepared(lambda: Agent.objects.only("slug").filter(slug=Given("slug", CharField())))
    found = some.first(slug="scribe")
    assert found is not None
    assert "name" in found.get_deferred_fields()
    assert found.name == "Scribe"


def test_whoever_listens_to_the_making_of_rows_is_still_told(run: Run) -> None:
    heard: list[str] = []

    def listen(instance: Agent, **_: Any) -> None:
        heard.append(instance.slug)

    post_init.connect(listen, sender=Agent)
    try:
        Prepared(lambda: Agent.objects.filter(slug=Given("slug", CharField()))).all(slug="scribe")
    finally:
        post_init.disconnect(listen, sender=Agent)
    assert heard == ["scribe"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": CallState.PROPOSED, "title": "é' \\ ; --"},
        {"arguments": None, "arguments_blob": "a" * 64},
        {"arguments": {"a": [1, None, "x"]}, "pinned": ["a"], "needs_receipt": True},
        {
            "state": CallState.SETTLED,
            "outcome": Outcome.OK,
            "settled_at": datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        },
    ],
)
def test_an_inserted_row_is_the_one_that_saving_would_have_written(
    run: Run, changes: dict[str, Any]
) -> None:
    def call(number: int) -> Call:
        return Call(run=run, step=number, place=0, proposal_id=str(number), tool="t", **changes)

    quick, usual = call(1), call(2)
    insert(quick)
    usual.save(force_insert=True)
    differ = {"id", "step", "proposal_id", "created_at", "updated_at"}
    read = [fields(Call.objects.get(pk=row.pk)) for row in (quick, usual)]
    assert {k: v for k, v in read[0].items() if k not in differ} == {
        k: v for k, v in read[1].items() if k not in differ
    }
    assert read[0]["updated_at"] is not None
    assert read[0]["created_at"] is not None


def test_what_the_database_fills_in_is_taken_over() -> None:
    row = AuditRow(actor="system:kaizen", action="tested.insert", subject="test:1", detail={})
    insert(row)
    assert AuditRow.objects.get(action="tested.insert").pk == row.pk
    assert row.at == AuditRow.objects.get(action="tested.insert").at


def test_a_statement_in_a_broken_transaction_is_refused_as_by_django(run: Run) -> None:
    connection.needs_rollback = True
    try:
        with pytest.raises(TransactionManagementError):
            BY_SLUG.first(slug="scribe")
    finally:
        connection.needs_rollback = False


def test_what_rides_on_statements_is_told_of_these_too(run: Run) -> None:
    seen: list[str] = []

    def ride(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(ride):
        BY_SLUG.first(slug="scribe")
    assert len(seen) == 1


def test_an_error_of_the_database_comes_as_djangos() -> None:
    with pytest.raises(IntegrityError):
        insert(Call(run_id=uuid.uuid4(), step=1, place=0, proposal_id="x", tool=None))


def dsn() -> str:
    known = connection.get_connection_params()
    return psycopg.conninfo.make_conninfo(
        **{name: known[name] for name in ("dbname", "user", "password", "host", "port")}
    )


def test_a_pooled_connection_that_lives_is_not_asked() -> None:
    with PooledConnection.connect(dsn(), autocommit=True) as pooled:
        pooled.execute("")
        assert pooled.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert pooled.execute("SELECT 1").fetchone() == (1,)


def test_a_pooled_connection_whose_server_ended_it_is_found_before_it_is_used() -> None:
    pooled = PooledConnection.connect(dsn(), autocommit=True)
    with psycopg.connect(dsn(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pooled.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        pooled.execute("")


def test_an_account_is_read_whole_although_it_is_djangos_own_kind(run: Run) -> None:
    found = Prepared(lambda: User.objects.filter(username=Given("name", CharField()))).first(
        name="mara"
    )
    assert found is not None
    assert found.check_password("a long enough secret")


SETTLE = Change(
    lambda: (
        Call.objects.order_by()
        .filter(pk=Given("call", UUIDField()))
        .exclude(state=CallState.SETTLED.value)
    ),
    {
        "step": F("step") + 1,
        **given_fields(Call, "state", "outcome", "projection", "images", "settled_at"),
    },
    returning=["tool", "step"],
)


@pytest.mark.parametrize("projection", [None, {"a": [1, None, "é"]}])
def test_a_change_writes_what_an_update_would_and_says_of_which_rows(
    run: Run, projection: dict[str, Any] | None
) -> None:
    quick, usual, other = (
        Call.objects.create(run=run, step=n, place=0, proposal_id=str(n), tool="t")
        for n in (1, 11, 21)
    )
    written = {
        "state": CallState.SETTLED.value,
        "outcome": Outcome.OK.value,
        "projection": projection,
        "images": [{"digest": "d"}],
        "settled_at": datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    }
    assert SETTLE.run(call=quick.pk, **written) == [("t", 2)]
    Call.objects.filter(pk=usual.pk).update(step=F("step") + 1, **written)
    differ = {"id", "step", "proposal_id", "created_at", "updated_at"}
    read = [fields(Call.objects.get(pk=row.pk)) for row in (quick, usual)]
    assert {k: v for k, v in read[0].items() if k not in differ} == {
        k: v for k, v in read[1].items() if k not in differ
    }
    # Nothing is NULL, which a JSON value's null is not.
    assert Call.objects.filter(pk=quick.pk, projection__isnull=projection is None).exists()
    assert fields(Call.objects.get(pk=other.pk)) == fields(other)


def test_a_change_leaves_what_its_condition_does_not_keep(run: Run) -> None:
    call = Call.objects.create(run=run, step=1, place=0, proposal_id="1", tool="t")
    written = {
        "state": CallState.SETTLED.value,
        "projection": None,
        "images": [],
        "settled_at": datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    }
    assert SETTLE.run(call=call.pk, outcome=Outcome.OK.value, **written) == [("t", 2)]
    assert SETTLE.run(call=call.pk, outcome=Outcome.ERROR.value, **written) == []
    assert SETTLE.run(call=uuid.uuid4(), outcome=Outcome.ERROR.value, **written) == []
    assert Call.objects.get(pk=call.pk).outcome == Outcome.OK.value


@pytest.mark.django_db(transaction=True)
def test_a_change_that_need_not_be_on_disk_is_the_only_one_that_is_not_waited_for(run: Run) -> None:
    rename = Change(
        lambda: Agent.objects.order_by().filter(NotOnDisk(), slug=Given("slug", CharField())),
        given_fields(Agent, "name"),
    )
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO on")
        assert len(rename.run(slug="scribe", name="Writer")) == 1
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)
    assert Agent.objects.get(slug="scribe").name == "Writer"
