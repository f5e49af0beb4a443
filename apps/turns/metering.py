"""What does a step with a model take from whose quota, and who says what it really took?

The step is held before the model hears of it, and closed when it has ended: with the usage that
the provider reported, or as it was held where it reported none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.core.metrics import MODEL_TOKENS, board
from apps.domain.compaction import estimate
from apps.quotas.errors import QuotaExceeded
from apps.quotas.services import ModelUse, reserve_step, settle_step
from apps.runs.models import JournalEntry, Run
from apps.runs.services import append_journal
from apps.turns.answer import Answer
from apps.turns.grip import Grip

OUTPUT_ESTIMATE = 4_000
"""Tokens that an answer is held with, before it is known how long it becomes."""
PLACE_SECONDS = 2.0
"""A run that found too much running already looks again after this."""


def hold_step(
    grip: Grip, run: Run, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> Any:
    """Hold one step under the quotas of member and agent; return what closes it again."""
    guess = ModelUse(tokens_in=estimate(messages, tools), tokens_out=OUTPUT_ESTIMATE)
    name = run.agent.model_name or settings.KAIZEN_MODEL_NAME
    with grip.locked() as locked:
        return reserve_step(run=locked, model_name=name, estimate=guess).pk


def close_step(held: Any, answer: Answer, *, served: bool = True) -> None:
    """Close a step with what its provider reported, if it did."""
    used = answer.usage
    if used is not None:
        board.start()
        MODEL_TOKENS.labels("read").inc(used.tokens_in)
        MODEL_TOKENS.labels("written").inc(used.tokens_out)
    settle_step(
        reservation_id=held,
        usage=None
        if used is None
        else ModelUse(tokens_in=used.tokens_in, tokens_out=used.tokens_out),
        served=served,
    )


def without_quota(grip: Grip, full: QuotaExceeded) -> None:
    """End a run whose quota is spent, saying when it renews; let it wait for a free place."""
    with grip.locked() as run:
        if grip.is_over(run):
            return
        if full.renews_at is None:
            run.state = Run.State.QUEUED
            run.claimed_by = ""
            run.claim_expires_at = None
            run.retry_at = timezone.now() + timedelta(seconds=PLACE_SECONDS)
            run.save()
            return
        append_journal(
            run=run,
            kind=JournalEntry.Kind.NOTE,
            body={"event": full.code, "renews_at": full.renews_at.isoformat()},
        )
        grip.finish(run, Run.Outcome.FAILED, str(full))
