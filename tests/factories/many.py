"""Ten thousand of everything that administrators list, and plans that show how it is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from apps.approvals.models import ApprovalRequest
from apps.audit.models import AuditRow
from apps.domain.canonical import digest
from apps.runs.models import Call, Run
from tests.factories.rooms import make_agent, make_member, make_room

HOT = {"runs_run", "runs_call", "approvals_approvalrequest"}


def make_many(count: int, *, name: str) -> None:
    """Make so many runs with a call, a question and a row of audit each, without the verbs."""
    member = make_member(f"member-{name}")
    agent = make_agent(member, slug=f"agent-{name}")
    room = make_room(member, agent)
    now = timezone.now()
    at = [now - timedelta(seconds=number) for number in range(count)]
    runs = Run.objects.bulk_create(
        Run(
            room=room,
            agent=agent,
            member=member,
            runtime=Run.Runtime.EXTERNAL,
            state=Run.State.FINISHED,
            outcome=Run.Outcome.COMPLETED,
            deadline_at=now,
            correlation_id=f"{name}-{number}",
            created_at=at[number],
            finished_at=now,
        )
        for number in range(count)
    )
    calls = Call.objects.bulk_create(
        _call(run, 1, created_at=moment) for run, moment in zip(runs, at, strict=True)
    )
    ApprovalRequest.objects.bulk_create(
        ApprovalRequest(
            call=call,
            decider=member,
            tool=call.tool,
            arguments_digest=call.arguments_digest,
            descriptor_digest=call.descriptor_digest,
            state=ApprovalRequest.State.APPROVED,
            expires_at=now,
            created_at=moment,
        )
        for call, moment in zip(calls, at, strict=True)
    )
    AuditRow.objects.bulk_create(
        AuditRow(
            at=at[number],
            actor=member.key,
            action="call.settled",
            subject=f"call:{calls[number].pk}",
            outcome="ok",
            correlation_id=f"{name}-{number}",
        )
        for number in range(count)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def make_calls(run: Run, count: int) -> None:
    """Give a run many settled calls."""
    Call.objects.bulk_create(_call(run, step) for step in range(2, count + 2))


def _call(run: Run, step: int, **fields: Any) -> Call:
    now = timezone.now()
    return Call(
        run=run,
        step=step,
        place=0,
        proposal_id=f"{step}",
        tool="create_artifact",
        title="Write an artifact",
        effect="write",
        arguments={},
        arguments_digest=digest({}),
        descriptor_digest=digest({}),
        state="settled",
        outcome="ok",
        rule="nothing_refuses",
        dispatched_at=now,
        settled_at=now,
        **fields,
    )


def scans_of(statement: str) -> Iterator[str]:
    """Name the hot tables that a statement would read from end to end."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
        (plans,) = cursor.fetchone()
    plan = json.loads(plans) if isinstance(plans, str) else plans
    yield from _scans(plan[0]["Plan"])


def _scans(node: dict[str, Any]) -> Iterator[str]:
    table = str(node.get("Relation Name", ""))
    hot = table in HOT or table.startswith("audit_auditrow_2")
    if node["Node Type"] == "Seq Scan" and hot and node["Plan Rows"] > 1_000:
        yield table
    for inner in node.get("Plans", ()):
        yield from _scans(inner)
