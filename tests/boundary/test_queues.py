"""Once every clock has run out, some queue finds whatever is still open: nothing waits for ever."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.boundary.lost import lost_runs
from apps.boundary.selectors import overdue_requests, ready_calls
from apps.rooms.models import Room
from apps.runs.models import Call, Run, RunInput
from apps.runs.selectors import ready_runs, waiting_inputs
from tests.factories.questions import make_question
from tests.factories.rooms import make_run

PAST = "2020-01-01T00:00Z"
FUTURE = "2060-01-01T00:00Z"

RUNTIMES = ("kaizen", "external")
RUN_STATES = ("queued", "running", "parked", "finished")
CALLS = ("proposed", "handed over", "asking", "allowed", "allowed late", "dispatched", "settled")
# The locks keep these from ever coming to be: a run parks, and ends, only under its lock, when it
# has no call that nobody has looked at; its last call wakes it under the same lock.
NEVER = {
    ("kaizen", "parked", "proposed"),
    ("kaizen", "parked", "settled"),
    ("kaizen", "finished", "proposed"),
    ("external", "finished", "proposed"),
}
# Another runtime's run runs until it has ended.
NOT_ANOTHERS = ("queued", "parked")


def put(run: Run, runtime: str, state: str, call: str, clock: str) -> None:
    request = make_question(run)
    rows = Call.objects.filter(pk=request.call_id)
    Run.objects.update(
        runtime=runtime,
        state=state,
        claim_expires_at=clock if (runtime, state) == ("kaizen", "running") else None,
        token_expires_at=clock if runtime == "external" else None,
    )
    if call in ("allowed", "allowed late"):
        ApprovalRequest.objects.update(state="approved")
        Receipt.objects.create(
            run=run,
            request=request, call_id=request.call_id, actor=run.member, tool=request.tool,
            arguments_digest=request.arguments_digest,
            descriptor_digest=request.descriptor_digest,
            expires_at=PAST if call == "allowed late" else FUTURE,
        )  # fmt: skip
        return
    if call == "asking":
        ApprovalRequest.objects.update(expires_at=clock)
        return
    request.delete()
    if call == "dispatched":
        rows.update(state=call, executor_expires_at=clock, needs_receipt=False)
    elif call == "settled":
        rows.update(state=call, outcome="ok", settled_at=PAST, needs_receipt=False)
    else:
        state = "waiting" if call == "handed over" else call
        rows.update(state=state, needs_receipt=False)


def found() -> set[str]:
    queues = {
        "runs": ready_runs, "calls": ready_calls, "overdue": overdue_requests, "lost": lost_runs,
    }  # fmt: skip
    return {name for name, ready in queues.items() if list(ready(10))}


@pytest.mark.parametrize(("runtime", "state", "call"), list(product(RUNTIMES, RUN_STATES, CALLS)))
def test_whatever_is_open_is_found(
    room: Room, agent: Agent, member: User, runtime: str, state: str, call: str
) -> None:
    if runtime == "external" and state in NOT_ANOTHERS:
        return
    put(make_run(room, agent, member), runtime, state, call, PAST)
    is_open = state != "finished" or call != "settled"
    assert bool(found()) == (is_open and (runtime, state, call) not in NEVER)


@pytest.mark.parametrize(
    ("runtime", "state", "call", "who"),
    [
        ("kaizen", "queued", "settled", {"runs"}),
        ("kaizen", "running", "proposed", set()),
        ("kaizen", "parked", "asking", set()),
        ("kaizen", "parked", "handed over", {"calls"}),
        ("kaizen", "parked", "allowed", {"calls"}),
        ("kaizen", "parked", "dispatched", set()),
        ("external", "running", "proposed", set()),
        ("external", "running", "asking", set()),
        ("external", "running", "handed over", {"calls"}),
        ("external", "running", "dispatched", set()),
    ],
)
def test_while_clocks_run_only_work_is_found(
    room: Room, agent: Agent, member: User, runtime: str, state: str, call: str, who: set[str]
) -> None:
    put(make_run(room, agent, member), runtime, state, call, FUTURE)
    assert found() == who


@pytest.mark.parametrize("state", RUN_STATES)
def test_an_input_is_found_once_nothing_is_before_it(
    room: Room, agent: Agent, member: User, state: str
) -> None:
    run: Any = make_run(room, agent, member)
    RunInput.objects.create(
        room=room, agent=agent, member=member, text="x", position=1, correlation_id="x"
    )
    Run.objects.filter(pk=run.pk).update(state=state)
    assert bool(list(waiting_inputs(10))) == (state == "finished")
