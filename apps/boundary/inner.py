"""How does a program that a call runs make calls of its own? As reads of its run, one at a time.

The program is handed no token: it only says a name and arguments, and whoever executes its call
asks here. Each crosses the boundary like a model's call, and is decided with the run's frozen
catalog, the member and the policy as they are at that moment. Nobody is asked: what a person would
have to confirm, what writes, waits or goes on elsewhere, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Max

from apps.boundary.crossing import Begun, Crossed, Settled
from apps.boundary.hold import Hold
from apps.boundary.pipeline import crossing_of, refuse, settle_executed
from apps.boundary.proposing import Proposal, draft_call, introduce
from apps.boundary.steps.consume import consume
from apps.boundary.steps.decide import judge
from apps.boundary.steps.execute import execute
from apps.core.deadlines import Deadline
from apps.domain.policy import Admit, Refuse
from apps.domain.tooling import CallState, Effect, EffectKind, Outcome, Reason, Specification
from apps.grants.policy import deployment_policy
from apps.quotas.errors import QuotaExceeded
from apps.rooms.services import room_last
from apps.runs.bodies import arguments_of, projection_of
from apps.runs.claims import lock_call, lock_run
from apps.runs.models import Call, Run
from apps.runs.services import keep_call
from apps.tools.catalog import resolve_tool
from apps.tools.contract import InnerAnswer
from apps.tools.credentials import NoConnection

LISTING: Final = "tools.available"
"""What a program says to hear which tools it may call."""
MAX_INNER: Final = 64
"""Calls that the program of one call may make, refused ones included."""
MAX_ANSWER: Final = 512 * 1024
FIRST_PLACE: Final = 10_000
"""Places of a step from here on are those of programs' calls; a model's are far below."""


class InnerCalls:
    """What the program of one dispatched call may ask for while its executor holds that call."""

    def __init__(
        self, *, call: Call, executor: str, cancelled: Callable[[], bool], seconds: float
    ) -> None:
        self._parent = call
        self._executor = executor
        self._cancelled = cancelled
        self._deadline = Deadline.after(seconds)
        self._made = 0

    def __call__(self, name: str, arguments: bytes) -> InnerAnswer:
        """Make one call and say what came of it; no connection is held afterwards."""
        try:
            if name == LISTING:
                return self._list()
            self._made += 1
            if self._made > MAX_INNER:
                return _failed("This program has made as many calls as it may.")
            return self._cross(name, arguments)
        finally:
            connection.close()

    def _list(self) -> InnerAnswer:
        run = Run.objects.select_related("agent").get(pk=self._parent.run_id)
        frozen = (run.catalog or {}).get("tools", {})
        policy = deployment_policy()
        found = []
        for name, entry in frozen.items():
            tool = resolve_tool(name, run.agent, policy)
            if tool is not None and tool.digest == entry["digest"] and is_open(tool.spec):
                found.append(tool.descriptor().as_dict())
        return _said(True, found)

    def _cross(self, name: str, arguments: bytes) -> InnerAnswer:
        with room_last():
            crossed = self._begin(name, arguments)
        if crossed is None:
            return _failed("The call whose program asks is over.")
        call = self._carry_out(crossed) if isinstance(crossed, Begun) else crossed.call
        projection = projection_of(call) or {}
        if call.outcome == Outcome.OK.value:
            return _said(True, projection.get("value"))
        return _failed(str(projection.get("message") or f"The call ended as {call.outcome}."))

    def _begin(self, name: str, arguments: bytes) -> Begun | Crossed | None:
        """Write the call down and decide it, under the run's lock."""
        run = lock_run(self._parent.run_id)
        parent = lock_call(self._parent.pk)
        if (parent.state, parent.executor) != (CallState.DISPATCHED.value, self._executor):
            return None
        draft = draft_call(
            run=run,
            step=parent.step,
            place=_next_place(parent),
            proposal=Proposal(
                f"inner:{parent.pk}:{self._made}", name, arguments.decode("utf-8", "replace")
            ),
            policy=deployment_policy(),
        )
        draft.call.parent = parent
        keep_call(draft.call)
        introduce(run, draft)
        call = draft.call
        if call.state != CallState.PROPOSED.value:
            return Settled(call)
        crossing = crossing_of(run, call)
        match judge(crossing):
            case Refuse() as refusal:
                return refuse(crossing, refusal)
            case Admit(rule=rule, waived=waived) if crossing.tool is not None and is_open(
                crossing.tool.spec
            ):
                try:
                    with transaction.atomic():
                        consume(crossing, executor=self._executor, waived=waived)
                except NoConnection as missing:
                    said = Refuse(
                        Reason.DEPENDENCY_UNAVAILABLE, str(missing), "connection_is_there"
                    )
                    return refuse(crossing, said)
                except QuotaExceeded as full:
                    return refuse(
                        crossing, Refuse(Reason.QUOTA_EXCEEDED, str(full), "quota_holds_it")
                    )
                return Begun(crossing, rule)
        return refuse(crossing, _CLOSED)

    def _carry_out(self, begun: Begun) -> Call:
        crossing = begun.crossing
        with Hold(
            call_id=crossing.call.pk, run_id=crossing.run.pk, executor=self._executor
        ) as hold:
            executed = execute(
                tool=begun.tool,
                run=crossing.run,
                call=crossing.call,
                arguments=arguments_of(crossing.call),
                cancelled=lambda: hold.cancelled() or self._over(),
            )
        with room_last():
            return settle_executed(begun=begun, executed=executed, executor=self._executor)

    def _over(self) -> bool:
        return self._cancelled() or self._deadline.remaining <= 0


def is_open(spec: Specification) -> bool:
    """Whether programs may call a tool at all: it reads, and its own call ends it."""
    goes_on = any(one.kind is EffectKind.SPAWNS_RUN for one in spec.side_effects)
    return spec.effect is Effect.READ and spec.pauses is None and not goes_on


_CLOSED: Final = Refuse(
    Reason.PERMISSION_DENIED,
    "A program may call tools that only read, where nobody has to be asked. Nothing was done; call"
    " this tool yourself, outside of the program.",
    "inner_calls_read",
)


def _next_place(parent: Call) -> int:
    inner = Call.objects.filter(run=parent.run_id, step=parent.step, place__gte=FIRST_PLACE)
    last: int | None = inner.aggregate(last=Max("place"))["last"]
    return FIRST_PLACE if last is None else last + 1


def _said(ok: bool, value: Any) -> InnerAnswer:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    if len(text) > MAX_ANSWER:
        return _failed("The answer is larger than what a program may be given at once.")
    return InnerAnswer(ok, text)


def _failed(sentence: str) -> InnerAnswer:
    return InnerAnswer(False, json.dumps(sentence).encode())
