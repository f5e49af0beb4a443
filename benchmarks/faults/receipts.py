"""Attempts on the receipt: changed, replayed, expired, foreign, pending or denied."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

from django.db.models import F
from django.utils import timezone

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest, Receipt
from apps.boundary.external import call_tool
from apps.boundary.services import decide_approval
from apps.domain.canonical import digest
from apps.domain.tooling import CallState
from apps.runs.models import Call
from benchmarks.faults.world import World, attempt

LONG_AGO = timedelta(days=30)


def _other(world: World, chance: Random) -> dict[str, Any]:
    """Arguments that nobody was shown; they carry the mark, so that their effect is seen."""
    return {"mark": f"{world.mark} {chance.getrandbits(40):x}"}


@attempt("changed arguments")
def a_yes_names_other_arguments(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    other = digest(_other(world, chance))
    world.must_refuse(lambda: world.approve(call, digest=other), "arguments_changed")
    world.must_not_run(call)


@attempt("changed arguments")
def arguments_and_digest_change_behind_the_yes(world: World, chance: Random) -> None:
    world.forbid()
    call = world.approved()
    other = _other(world, chance)
    Call.objects.filter(pk=call.pk).update(arguments=other, arguments_digest=digest(other))
    world.must_be_refused(call)


@attempt("changed arguments")
def arguments_change_and_their_digest_stays(world: World, chance: Random) -> None:
    world.forbid()
    call = world.approved()
    Call.objects.filter(pk=call.pk).update(arguments=_other(world, chance))
    world.must_be_refused(call)


@attempt("changed arguments")
def a_proposal_id_comes_back_with_other_arguments(world: World, chance: Random) -> None:
    world.forbid()
    call = world.approved()
    world.must_refuse(
        lambda: call_tool(
            run=world.run,
            name=call.tool,
            arguments_text=json.dumps(_other(world, chance)),
            proposal_id=call.proposal_id,
        ),
        "proposal_changed",
    )


@attempt("changed arguments")
def a_yes_does_not_cover_the_same_arguments_in_another_call(world: World, chance: Random) -> None:
    world.forbid()
    world.approved()
    world.must_not_run(world.propose())


@attempt("replayed receipt")
def a_settled_call_is_executed_again(world: World, chance: Random) -> None:
    world.allow()
    call = world.approved()
    world.must_run(call)
    for _ in range(chance.randint(1, 3)):
        world.execute(call)


@attempt("replayed receipt")
def a_settled_call_is_made_to_wait_again(world: World, chance: Random) -> None:
    world.allow()
    call = world.approved()
    world.must_run(call)
    _set_waiting(call)
    world.must_be_refused(call)


@attempt("replayed receipt")
def a_question_is_answered_twice(world: World, chance: Random) -> None:
    world.allow()
    call = world.approved()
    world.must_run(call)
    approve = chance.random() < 0.5
    question = world.question(call)
    world.must_refuse(
        lambda: decide_approval(
            approval_id=question.pk,
            member=world.member,
            approve=approve,
            arguments_digest=question.arguments_digest,
        ),
        "already_decided",
    )
    world.execute(call)


@attempt("replayed receipt")
def a_spent_receipt_is_carried_to_a_waiting_call(world: World, chance: Random) -> None:
    world.allow()
    spent = world.approved()
    world.must_run(spent)
    world.forbid()
    call = world.approved()
    Receipt.objects.filter(call=call).delete()
    Receipt.objects.filter(call=spent).update(call=call, tool=call.tool)
    world.must_be_refused(call)


@attempt("expired receipt")
def a_yes_is_used_too_late(world: World, chance: Random) -> None:
    world.forbid()
    call = world.approved()
    late = timezone.now() - timedelta(seconds=chance.randint(1, 100_000))
    Receipt.objects.filter(call=call).update(expires_at=late)
    world.must_be_refused(call)


@attempt("expired receipt")
def a_yes_comes_too_late(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    late = timezone.now() - timedelta(seconds=chance.randint(1, 100_000))
    ApprovalRequest.objects.filter(call=call).update(expires_at=late)
    world.must_refuse(lambda: world.approve(call), "already_decided")
    world.must_not_run(call)


@attempt("foreign receipt")
def the_receipt_of_another_call_is_put_under_this_one(world: World, chance: Random) -> None:
    world.forbid()
    theirs = world.approved()
    world.forbid()
    mine = world.approved()
    Receipt.objects.filter(call=mine).delete()
    Receipt.objects.filter(call=theirs).update(call=mine)
    world.must_be_refused(mine)
    world.must_be_refused(theirs)


@attempt("foreign receipt")
def the_receipt_was_given_by_somebody_else(world: World, chance: Random) -> None:
    world.forbid()
    call = world.approved()
    other = chance.choice([world.guest, world.stranger, world.keeper])
    Receipt.objects.filter(call=call).update(actor=other)
    world.must_be_refused(call)


@attempt("foreign receipt")
def the_receipt_names_another_tool_or_contract(world: World, chance: Random) -> None:
    world.forbid()
    call = world.approved()
    changes: list[dict[str, Any]] = [
        {"tool": "look_outside"},
        {"descriptor_digest": digest(chance.random())},
        {"arguments_digest": digest(chance.random())},
    ]
    Receipt.objects.filter(call=call).update(**chance.choice(changes))
    world.must_be_refused(call)


@attempt("foreign receipt")
def somebody_else_says_yes(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    other: User = chance.choice([world.guest, world.stranger, world.keeper])
    world.must_refuse(lambda: world.approve(call, by=other), "not_found")
    world.must_not_run(call)


@attempt("pending receipt")
def a_worker_looks_before_anybody_answered(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    for _ in range(chance.randint(1, 3)):
        world.must_not_run(call)


@attempt("pending receipt")
def an_answer_without_a_receipt(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    ApprovalRequest.objects.filter(call=call).update(
        state=ApprovalRequest.State.APPROVED, decided_by=world.member, decided_at=timezone.now()
    )
    world.must_not_run(call)


@attempt("denied receipt")
def a_no_is_no(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    decide_approval(approval_id=world.question(call).pk, member=world.member, approve=False)
    world.execute(call)
    _set_waiting(call)
    world.must_be_refused(call)
    world.must_refuse(lambda: world.approve(call), "already_decided")


@attempt("denied receipt")
def a_withdrawn_question_is_no_yes(world: World, chance: Random) -> None:
    opened = world.open()
    world.forbid()
    call = world.propose(opened.run)
    world.end(opened.run)
    _set_waiting(call)
    world.must_be_refused(call)


def _set_waiting(call: Call) -> None:
    """Put a settled call back to where it waited, as a restored or forged row would stand."""
    Call.objects.filter(pk=call.pk).update(
        state=CallState.WAITING.value,
        outcome="",
        settled_at=None,
        dispatched_at=None,
        attempts=F("attempts") * 0,
    )
