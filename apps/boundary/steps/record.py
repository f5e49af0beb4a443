"""Step 6, record: one outcome, one audit row, one event in the room, and the run may go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.audit.services import record as write_audit
from apps.boundary.crossing import Crossing, Settled
from apps.core.blobs import put_blobs
from apps.core.metrics import count_call
from apps.domain.lessons import Ended, Lessons
from apps.domain.seeing import Seen, worth_keeping
from apps.domain.tooling import Effect, Outcome, Reason, ToolFailure, ToolImage, usual_domain
from apps.quotas import services as quotas
from apps.rooms.services import publish_event
from apps.runs.models import Call, Run
from apps.runs.services import actor_of, settle_call, wake
from apps.runs.waits import is_paused

# What readers of audit trails know a tool's write by, whatever it wrote and however it ended.
WRITE_SETTLED = "chat.tool.write"
CALL_SETTLED = "call.settled"
_WRITES = frozenset({Effect.WRITE.value, Effect.SENSITIVE.value})


def record(
    crossing: Crossing,
    *,
    outcome: Outcome,
    reason: str,
    rule: str,
    projection: dict[str, Any],
    explanation: str = "",
    failure: ToolFailure | None = None,
    provenance: Mapping[str, Any] | None = None,
    images: Sequence[ToolImage] = (),
) -> Settled:
    """Settle a call for good. Run and call are locked; the room's event comes last.

    Everyone in the room reads the explanation, so it is a sentence of ours. What a tool itself
    says of its failure may hold what it was given, and goes to the model and its member alone.
    """
    run = crossing.run
    domain = _domain(reason, failure)
    # How long another system took is no work of the tool's.
    worked = not is_paused(crossing.call)
    call = settle_call(
        run=run,
        call=crossing.call,
        outcome=outcome,
        reason=reason,
        rule=rule,
        projection=projection,
        domain=domain,
        non_substitutable=failure is not None and failure.non_substitutable,
        images=_kept_images(run, images, projection),
    )
    _learn(run, call, failure)
    if call.dispatched_at is not None and crossing.leaves_us:
        quotas.close_call(call=call)
    write_audit(
        actor=run.member,
        action=WRITE_SETTLED if call.effect in _WRITES else CALL_SETTLED,
        subject=call,
        outcome=outcome.value,
        digest=call.arguments_digest,
        detail={
            # A name that stood for nothing when it was proposed is words of a model.
            "tool": call.tool if call.effect else "",
            "agent": run.agent.slug,
            # As it was when this was decided; an agent may be changed while it works.
            "revision": run.agent.revision,
            "run": str(run.pk),
            "reason": reason,
            "domain": domain,
            "rule": call.rule,
            **({"provenance": dict(provenance)} if provenance else {}),
        },
    )
    publish_event(
        room_id=run.room_id,
        kind="call.settled",
        actor=actor_of(run.agent),
        data={
            "call": str(call.pk),
            "run": str(run.pk),
            "tool": call.tool,
            "title": call.title,
            "outcome": outcome.value,
            "reason": reason,
            "explanation": explanation[:300],
            "milliseconds": _milliseconds(call),
            "artifact": _artifact(projection),
        },
    )
    wake(run=run)
    _count(call, worked=worked)
    return Settled(call)


def _kept_images(
    run: Run, images: Sequence[ToolImage], projection: dict[str, Any]
) -> list[dict[str, Any]]:
    """Keep what the run's model may look at, where it sees images at all, and name it."""
    if not images or not run.agent.sees_images:
        return []
    kept = worth_keeping(images, projection)
    put_blobs(image.content for image in kept)
    return [Seen(one.digest, one.mime_type, len(one.content)).as_dict() for one in kept]


def _domain(reason: str, failure: ToolFailure | None) -> str:
    if failure is not None:
        return failure.fault.value
    return usual_domain(Reason(reason)).value if reason else ""


def _learn(run: Run, call: Call, failure: ToolFailure | None) -> None:
    """Keep with the run what this end teaches; mostly that is nothing, and costs nothing."""
    lessons = Lessons.of(run.lessons)
    learned = lessons.after(
        Ended(
            tool=call.tool,
            digest=call.arguments_digest,
            step=call.step,
            outcome=Outcome(call.outcome),
            reason=call.reason,
            fault=failure.fault if failure is not None else None,
            retryable=failure is not None and failure.retryable,
        )
    )
    if learned != lessons:
        run.lessons = learned.as_json()
        Run.objects.filter(pk=run.pk).update(lessons=run.lessons)


def _count(call: Call, *, worked: bool) -> None:
    waited = _between(call.created_at, call.settled_at)
    count_call(
        tool=call.tool,
        # A name that stood for nothing when it was proposed has no effect either.
        known=bool(call.effect),
        capability=call.capability,
        outcome=call.outcome,
        reason=call.reason,
        domain=call.domain,
        seconds=waited,
        execution_seconds=_between(call.dispatched_at, call.settled_at) if worked else None,
    )


def _milliseconds(call: Call) -> int | None:
    seconds = _between(call.dispatched_at, call.settled_at)
    return None if seconds is None else int(seconds * 1000)


def _between(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None:
        return None
    # Two machines' clocks may differ by a little.
    return max(0.0, (end - begin).total_seconds())


def _artifact(projection: dict[str, Any]) -> dict[str, Any] | None:
    saved = projection.get("artifacts") or projection.get("saved") or []
    if not saved:
        return None
    ident, _, version = str(saved[0]).partition(":")
    # A program may name files that it saved, which are no versions.
    return {"id": ident, "version": int(version)} if version.isdecimal() else None
