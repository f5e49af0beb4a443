"""Questions that wait for a member's answer, without a sandbox behind them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.approvals.models import ApprovalRequest
from apps.domain.canonical import digest
from apps.domain.tooling import CallState
from apps.runs.models import Call, Run


def make_question(run: Run, arguments: dict[str, Any] | None = None) -> ApprovalRequest:
    """A pending question about a call of a run, as the boundary leaves it."""
    arguments = {"celsius": 21} if arguments is None else arguments
    place = Call.objects.filter(run=run).count()
    call = Call.objects.create(
        run=run,
        step=90,
        place=place,
        proposal_id=f"question-{place}",
        tool="pkg_weather_convert",
        title="Convert",
        effect="write",
        arguments=arguments,
        arguments_digest=digest(arguments),
        descriptor_digest=digest({}),
        state=CallState.WAITING.value,
        needs_receipt=True,
    )
    return ApprovalRequest.objects.create(
        call=call,
        decider=run.member,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest=call.descriptor_digest,
        why="It writes.",
        expires_at=timezone.now() + timedelta(hours=1),
    )
