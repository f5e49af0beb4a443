"""One approved call under siege: a row is forged, a worker tries, and the row is put back.

Most of what may go wrong with a receipt is a row that is not as it should be. So a call gets its
rightful yes once, is attacked many times, and in the end has to be carried out exactly once: what
was put back was whole, and the refusals were not refusals of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.domain.canonical import digest
from apps.domain.tooling import CallState, Capability
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from benchmarks.faults.world import Admitted, World, attempt

ASSAULTS = 14


@dataclass(frozen=True, slots=True)
class Siege:
    """The besieged call with everything around it, as it was."""

    world: World
    chance: Random
    call: Call
    receipt: Receipt
    run: Run
    spent: Call
    forged: set[Any] = field(default_factory=set)

    def forge(self, model: Any, ident: Any, **changes: Any) -> None:
        """Change a row behind everybody's back."""
        self.forged.add(model)
        model.objects.filter(pk=ident).update(**changes)

    @property
    def long_ago(self) -> Any:
        """A moment in the past."""
        return timezone.now() - timedelta(seconds=self.chance.randint(1, 10_000_000))

    @property
    def some_digest(self) -> str:
        """A digest of something else."""
        return digest(self.chance.random())


Forgery = Callable[[Siege], None]


def _arguments(siege: Siege) -> None:
    other = {"mark": f"{siege.world.mark} {siege.chance.getrandbits(40):x}"}
    digests = {"arguments_digest": digest(other)} if siege.chance.random() < 0.5 else {}
    siege.forge(Call, siege.call.pk, arguments=other, **digests)


def _receipt_actor(siege: Siege) -> None:
    other = siege.chance.choice([siege.world.guest, siege.world.stranger, siege.world.keeper])
    siege.forge(Receipt, siege.receipt.pk, actor=other)


def _receipt_of_another(siege: Siege) -> None:
    siege.forge(Receipt, siege.receipt.pk, call=siege.spent)


def _request(state: str) -> Forgery:
    return lambda siege: siege.forge(ApprovalRequest, siege.receipt.request_id, state=state)


def _catalog(siege: Siege) -> None:
    catalog = {"tools": {**(siege.run.catalog or {})["tools"]}}
    entry = catalog["tools"].pop(siege.call.tool)
    if siege.chance.random() < 0.5:
        catalog["tools"][siege.call.tool] = {**entry, "digest": siege.some_digest}
    siege.forge(Run, siege.run.pk, catalog=catalog)


def _ceiling(siege: Siege) -> None:
    words = [word.value for word in Capability if word is not Capability.ARTIFACTS_WRITE]
    chosen = siege.chance.sample(words, siege.chance.randint(0, len(words)))
    siege.forge(Agent, siege.world.agent.pk, ceiling=chosen)


FORGERIES: tuple[tuple[str, Forgery], ...] = (
    ("changed arguments", _arguments),
    ("changed arguments", lambda s: s.forge(Receipt, s.receipt.pk, arguments_digest=s.some_digest)),
    ("changed arguments", lambda s: s.forge(Call, s.call.pk, arguments_digest=s.some_digest)),
    ("replayed receipt", lambda s: s.forge(Receipt, s.receipt.pk, spent_at=s.long_ago)),
    ("expired receipt", lambda s: s.forge(Receipt, s.receipt.pk, expires_at=s.long_ago)),
    ("foreign receipt", _receipt_actor),
    ("foreign receipt", _receipt_of_another),
    ("foreign receipt", lambda s: s.forge(Receipt, s.receipt.pk, tool="look_outside")),
    ("changed descriptor", lambda s: s.forge(Receipt, s.receipt.pk, descriptor_digest="sha256:0")),
    ("pending receipt", _request(ApprovalRequest.State.PENDING)),
    ("denied receipt", _request(ApprovalRequest.State.DENIED)),
    ("expired receipt", _request(ApprovalRequest.State.EXPIRED)),
    ("denied receipt", _request(ApprovalRequest.State.WITHDRAWN)),
    ("changed descriptor", _catalog),
    ("narrowed ceiling", _ceiling),
    ("switched-off agent", lambda s: s.forge(Agent, s.world.agent.pk, enabled=False)),
    ("revoked member", lambda s: s.forge(User, s.world.member.pk, is_active=False)),
    ("closed room", lambda s: s.forge(Room, s.world.room.pk, closed_at=s.long_ago)),
    ("stopped run", lambda s: s.forge(Run, s.run.pk, stop_requested_at=s.long_ago)),
    ("ended run", lambda s: s.forge(Run, s.run.pk, state=Run.State.FINISHED)),
    ("changed descriptor", lambda s: s.forge(Call, s.call.pk, tool="no_such_tool")),
)


@attempt("allowed")
def a_call_under_siege(world: World, chance: Random) -> None:
    world.allow()
    spent = world.approved()
    world.must_run(spent)
    # The receipt that a forgery moves away needs a call without one to lie under.
    Receipt.objects.filter(call=spent).delete()
    world.allow()
    call = world.approved()
    receipt = Receipt.objects.select_related("request").get(call=call)
    run = Run.objects.get(pk=call.run_id)
    siege = Siege(world, chance, call, receipt, run, spent)
    allowed = world.mark
    for kind, forgery in chance.choices(FORGERIES, k=ASSAULTS):
        # What is carried out now would leave the line of a call that was not allowed.
        world.forbid()
        Call.objects.filter(pk=call.pk).update(proposal_id=f"{world.mark}:siege")
        world.tried[kind] += 1
        forgery(siege)
        executed = world.execute(call)
        if executed.dispatched_at is not None or executed.outcome == "ok":
            raise Admitted(f"{kind}: the call is {executed.state} {executed.outcome}")
        _put_back(siege)
    world.mark = allowed
    world.must_run(call)


@transaction.atomic
def _put_back(siege: Siege) -> None:
    """Set everything that a forgery or its refusal may have changed to what it was."""
    call, receipt, run, world = siege.call, siege.receipt, siege.run, siege.world
    Call.objects.filter(pk=call.pk).update(
        state=CallState.WAITING.value,
        outcome="",
        reason="",
        settled_at=None,
        attempts=0,
        tool=call.tool,
        arguments=call.arguments,
        arguments_digest=call.arguments_digest,
        proposal_id=call.proposal_id,
    )
    rows: dict[Any, tuple[Any, dict[str, Any]]] = {
        Receipt: (
            receipt.pk,
            {
                "call": call,
                "actor": receipt.actor_id,
                "tool": receipt.tool,
                "arguments_digest": receipt.arguments_digest,
                "descriptor_digest": receipt.descriptor_digest,
                "expires_at": receipt.expires_at,
                "spent_at": None,
            },
        ),
        ApprovalRequest: (receipt.request_id, {"state": ApprovalRequest.State.APPROVED}),
        Run: (
            run.pk,
            {"catalog": run.catalog, "stop_requested_at": None, "state": Run.State.RUNNING},
        ),
        Agent: (world.agent.pk, {"ceiling": world.agent.ceiling, "enabled": True}),
        User: (world.member.pk, {"is_active": True}),
        Room: (world.room.pk, {"closed_at": None}),
    }
    for model in siege.forged - {Call}:
        ident, were = rows[model]
        model.objects.filter(pk=ident).update(**were)
    siege.forged.clear()
