"""Step 3, consume: reserve one exact effect and mark the call dispatched, in one transaction.

The effect is this call with the digest of its arguments, as its registered specification classes
it; the receipt that was given for exactly that, what it takes from quotas, and the connection that
it is bound to are spent and reserved together, or none of them is.

The row locks of run and call are held, and the verdict was given again under them. Whoever comes
second finds the receipt spent or the call no longer waiting, and does not get to execute.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import UUIDField
from django.db.models.functions import Now
from django.utils import timezone

from apps.approvals import services as ledger
from apps.boundary.crossing import Crossing, Waiting
from apps.core.prepared import Change, Given, given_fields
from apps.domain.policy import Waived
from apps.domain.tooling import CallState, Effect, EffectKind
from apps.quotas import services as quotas
from apps.rooms.services import publish_event
from apps.runs.bodies import arguments_of
from apps.runs.errors import AlreadySettled
from apps.runs.models import Call
from apps.runs.services import actor_of, keep_call
from apps.tools.credentials import binding_of

EXECUTOR_SECONDS = 15
"""An executor renews its hold three times within this; after it, the call's end is unknown."""


def consume(crossing: Crossing, *, executor: str, waived: Waived = Waived.NOT) -> Call:
    """Spend what has to be spent and dispatch the call to this executor, before any effect."""
    run, call = crossing.run, crossing.call
    binding = ""
    if crossing.tool is not None:
        binding = binding_of(spec=crossing.tool.spec, member=run.member)
    if call.needs_receipt:
        ledger.spend_receipt(call=call, actor=run.member)
    elif waived is not Waived.NOT:
        keep_call(call)
        ledger.waive(call=call, actor=run.member, kind=waived)
    if crossing.leaves_us:
        quotas.reserve_call(run=run, call=call)
    now = timezone.now()
    changes: dict[str, Any] = {
        "state": CallState.DISPATCHED.value,
        "dispatched_at": now,
        "executor": executor,
        "binding": binding,
        "updated_at": now,
    }
    if not call._state.adding and not _DISPATCH.run(call=call.pk, **changes):
        raise AlreadySettled("This call was already dispatched.")
    for field, value in changes.items():
        setattr(call, field, value)
    if call.effect != Effect.READ.value or _spawns_a_run(crossing):
        # Any other drafted read of ours is written once, with its outcome: it ends in this
        # transaction, and nothing that it does can point at its row.
        keep_call(call)
    return call


_CHANGED = ("state", "dispatched_at", "executor", "binding", "updated_at")
_DISPATCH = Change(
    lambda: Call.objects.order_by().filter(
        pk=Given("call", UUIDField()),
        state__in=(CallState.PROPOSED.value, CallState.WAITING.value),
    ),
    {
        # The database's clock decides when an executor counts as silent.
        "executor_expires_at": Now() + timedelta(seconds=EXECUTOR_SECONDS),
        **given_fields(Call, *_CHANGED),
    },
)


def _spawns_a_run(crossing: Crossing) -> bool:
    effects = () if crossing.tool is None else crossing.tool.spec.side_effects
    return any(declared.kind is EffectKind.SPAWNS_RUN for declared in effects)


def hand_on(crossing: Crossing, *, to: str) -> Waiting:
    """Leave a dispatched call to what its tool set going; only that ends it, in its own time."""
    call = crossing.call
    call.executor, call.executor_expires_at = to, None
    call.save(update_fields=["executor", "executor_expires_at", "updated_at"])
    return Waiting(call)


def announce(crossing: Crossing) -> None:
    """Tell the room that a call which waited is now running."""
    data: dict[str, Any] = {"call": str(crossing.call.pk), "run": str(crossing.run.pk)}
    if targets := targets_in(crossing):
        data["targets"] = targets
    publish_event(
        room_id=crossing.run.room_id,
        kind="call.dispatched",
        actor=actor_of(crossing.run.agent),
        data=data,
    )


def targets_in(crossing: Crossing) -> list[str]:
    """Name the files that a call is to make, where its tool says which argument lists them."""
    spec = None if crossing.tool is None else crossing.tool.spec
    if spec is None or spec.targets_argument is None:
        return []
    return [str(name) for name in arguments_of(crossing.call).get(spec.targets_argument, [])]
