"""When a conversation has grown too long, what is left out of it, and what stands for that?

The choice is made from rows alone and kept in the journal, so whoever goes on with the run reads
exactly the same. What the member asks is never left out.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from apps.domain.compaction import estimate
from apps.runs.models import JournalEntry
from apps.runs.services import append_journal
from apps.turns.context import Compaction, Conversation
from apps.turns.grip import Grip
from apps.turns.history import HISTORY_MESSAGES
from apps.turns.plan import tighter

KEPT_STEPS = (4, 2, 1, 0)
"""So many of the last steps stay whole when older ones are left out: the most that fit."""
_HISTORY = (HISTORY_MESSAGES, 10, 4, 0)


def within_bounds(
    grip: Grip, conversation: Conversation, tools: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the conversation, with its older steps left out once it is longer than its bound."""
    run = conversation.run
    most = tighter(run.agent.context_tokens, settings.KAIZEN_CONTEXT_TOKENS)
    messages = conversation.messages()
    if estimate(messages, tools) <= most:
        return messages
    smaller = compaction_within(conversation, tools, most=most * 6 // 10)
    if smaller is None:
        # Nothing more can be left out: the model's own bound decides what becomes of it.
        return messages
    write_compaction(grip, smaller)
    return conversation.messages(smaller)


def compaction_within(
    conversation: Conversation, tools: list[dict[str, Any]], *, most: int
) -> Compaction | None:
    """Return the least compaction under a bound, or the greatest; None where nothing is left out.

    What the member asks is never left out; the room's older talk goes first, then older steps.
    """
    held = conversation.compaction
    found = None
    for history in (number for number in _HISTORY if number <= held.history):
        for kept in KEPT_STEPS:
            through = max(held.through, conversation.steps - kept)
            if (through, history) == (held.through, held.history):
                continue
            found = Compaction(through, history, conversation.summary_of(through))
            if estimate(conversation.messages(found), tools) <= most:
                return found
    return found


def squeeze(grip: Grip, conversation: Conversation, tools: list[dict[str, Any]], step: int) -> bool:
    """Leave out half of what a model found too long; False where nothing more can be left out."""
    now = estimate(conversation.messages(), tools)
    smaller = compaction_within(conversation, tools, most=now // 2)
    if smaller is None or estimate(conversation.messages(smaller), tools) >= now:
        return False
    write_compaction(grip, smaller, squeezed=step)
    return True


def write_compaction(grip: Grip, compaction: Compaction, *, squeezed: int | None = None) -> None:
    """Keep a compaction, and for which step the model itself demanded it."""
    body: dict[str, Any] = {
        "through": compaction.through,
        "history": compaction.history,
        "summary": compaction.summary,
    }
    if squeezed is not None:
        body["squeezed"] = squeezed
    with grip.locked() as run:
        append_journal(run=run, kind=JournalEntry.Kind.COMPACTION, body=body)
