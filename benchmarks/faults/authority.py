"""Attempts without the right to it: who left, what was narrowed, what has changed or has ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.services import change_agent, disable_agent, enable_agent
from apps.boundary.external import call_tool, finish_external_run, run_of_token
from apps.boundary.pipeline import cross
from apps.boundary.proposing import Proposal, propose
from apps.boundary.services import stop_run
from apps.core.errors import Refusal
from apps.domain.tooling import Capability, Outcome
from apps.grants.services import revoke_tool
from apps.packages.services import disable_package, enable_package
from apps.rooms.services import close_room, invite, remove_participant
from apps.runs.claims import claim_run, fenced, lock_call
from apps.runs.models import Call, Run
from apps.runs.services import finish_run, lock_seat, start_run
from apps.tools.catalog import freeze
from benchmarks.effects import READ, WRITE
from benchmarks.faults.world import EVERYTHING, Admitted, World, attempt

NOTE = {"kind": "markdown", "body": "Nothing that may be kept."}


def _propose_refused(world: World, run: Run, tool: str) -> None:
    """Propose a call that has to come back refused, and let a worker look at it all the same."""
    call = _note(world, run) if tool == "create_artifact" else world.propose(run, tool)
    if call.outcome == Outcome.OK.value or call.dispatched_at is not None:
        raise Admitted(f"{tool} is {call.state} {call.outcome}")
    world.must_not_run(call)


def _note(world: World, run: Run) -> Call:
    crossed = call_tool(
        run=run,
        name="create_artifact",
        arguments_text=json.dumps({**NOTE, "title": world.mark}),
        proposal_id=f"{world.mark}:note",
    )
    return crossed.call


def _before_or_behind(
    world: World, chance: Random, run: Run, take_away: Callable[[], Any], *tools: str
) -> None:
    """Take the right away before the proposal, or between the yes and the worker."""
    tool = chance.choice(tools)
    world.forbid()
    if tool == WRITE and chance.random() < 0.6:
        call = world.propose(run)
        world.approve(call, by=run.member)
        take_away()
        world.must_be_refused(call)
        return
    if tool == READ and chance.random() < 0.6:
        call = world.propose(run, READ)
        take_away()
        world.must_be_refused(call)
        return
    take_away()
    _propose_refused(world, run, tool)


@attempt("revoked member")
def a_member_has_left_the_room(world: World, chance: Random) -> None:
    opened = world.open(member=world.guest)

    def leave() -> None:
        remove_participant(room_id=world.room.pk, actor=world.member, username=world.guest.username)

    try:
        _before_or_behind(world, chance, opened.run, leave, WRITE, READ, "create_artifact")
    finally:
        invite(room_id=world.room.pk, inviter=world.member, username=world.guest.username)
        world.end(opened.run)


@attempt("revoked member")
def an_account_was_switched_off(world: World, chance: Random) -> None:
    opened = world.open(member=world.guest)
    people = User.objects.filter(pk=world.guest.pk)
    try:
        _before_or_behind(
            world,
            chance,
            opened.run,
            lambda: people.update(is_active=False),
            WRITE,
            READ,
            "create_artifact",
        )
    finally:
        people.update(is_active=True)
        world.end(opened.run)


@attempt("narrowed ceiling")
def the_ceiling_was_narrowed(world: World, chance: Random) -> None:
    least = [Capability.AGENTS_READ.value]
    opened = world.open()
    try:
        _before_or_behind(
            world,
            chance,
            opened.run,
            lambda: change_agent(
                agent_id=world.agent.pk, actor=world.member, changes={"ceiling": least}
            ),
            WRITE,
            READ,
            "create_artifact",
        )
    finally:
        change_agent(agent_id=world.agent.pk, actor=world.member, changes={"ceiling": EVERYTHING})
        world.end(opened.run)


@attempt("switched-off agent")
def the_agent_was_switched_off(world: World, chance: Random) -> None:
    opened = world.open()
    try:
        _before_or_behind(
            world,
            chance,
            opened.run,
            lambda: disable_agent(agent_id=world.agent.pk, actor=world.member),
            WRITE,
            READ,
            "create_artifact",
        )
    finally:
        enable_agent(agent_id=world.agent.pk, actor=world.member)
        world.end(opened.run)


@attempt("closed room")
def the_room_was_closed(world: World, chance: Random) -> None:
    room = world.new_room()
    opened = world.open(room=room)
    _before_or_behind(
        world,
        chance,
        opened.run,
        lambda: close_room(room_id=room.pk, actor=world.member),
        WRITE,
        READ,
        "create_artifact",
    )
    world.end(opened.run)


@attempt("stopped run")
def the_run_was_stopped(world: World, chance: Random) -> None:
    opened = world.open()
    world.forbid()
    call = world.approved(opened.run)
    stop_run(run_id=opened.run.pk, member=world.member)
    world.must_not_run(call)
    world.must_refuse(lambda: _note(world, opened.run))


@attempt("ended run")
def a_token_outlives_its_run(world: World, chance: Random) -> None:
    opened = world.open()
    world.forbid()
    call = world.approved(opened.run)
    finish_external_run(run=opened.run, text="")
    world.must_refuse(lambda: run_of_token(opened.token), "bad_run_token")
    world.must_refuse(lambda: _note(world, opened.run))
    world.must_not_run(call)


@attempt("ended run")
def a_token_has_expired(world: World, chance: Random) -> None:
    opened = world.open()
    world.forbid()
    Run.objects.filter(pk=opened.run.pk).update(token_expires_at=timezone.now())
    world.must_refuse(lambda: run_of_token(opened.token), "bad_run_token")
    world.end(opened.run)


@attempt("ended run")
def a_token_is_guessed(world: World, chance: Random) -> None:
    token = world.opened.token
    place = chance.randrange(len(token))
    guessed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
    world.must_refuse(lambda: run_of_token(guessed), "bad_run_token")
    world.must_refuse(lambda: run_of_token(world.run.token_hash), "bad_run_token")


@contextmanager
def _packaged_call(world: World) -> Iterator[Call]:
    """A call of the package's tool with an unused yes; afterwards all is as it was."""
    opened = world.open()
    world.forbid()
    call = world.approved(opened.run, world.tool)
    try:
        yield call
    finally:
        world.grant()
        world.end(opened.run)
        world.renew_run()


@attempt("changed descriptor")
def the_tool_was_upgraded_behind_the_yes(world: World, chance: Random) -> None:
    with _packaged_call(world) as call:
        number = int(world.version.version.split(".")[1])
        world.version = world.publish(number + 1)
        if chance.random() < 0.7:
            world.grant()
        else:
            revoke_tool(agent_id=world.agent.pk, revoker=world.member, tool=world.tool)
        world.must_be_refused(call)


@attempt("removed grant")
def the_grant_was_taken_back(world: World, chance: Random) -> None:
    with _packaged_call(world) as call:
        revoke_tool(agent_id=world.agent.pk, revoker=world.member, tool=world.tool)
        world.must_be_refused(call)


@attempt("removed grant")
def a_tool_that_was_never_granted(world: World, chance: Random) -> None:
    revoke_tool(agent_id=world.agent.pk, revoker=world.member, tool=world.tool)
    opened = world.open()
    try:
        world.grant()
        world.forbid()
        # It is granted now, and was not when the catalog of this run was frozen.
        call = world.propose(opened.run, world.tool)
        world.must_not_run(call)
    finally:
        world.end(opened.run)


@attempt("changed descriptor")
def the_package_was_switched_off_behind_the_yes(world: World, chance: Random) -> None:
    package = world.version.package_id
    with _packaged_call(world) as call:
        disable_package(package_id=package, actor=world.keeper)
        try:
            world.must_be_refused(call)
        finally:
            enable_package(package_id=package, actor=world.keeper)


@attempt("changed descriptor")
def the_contract_in_the_catalog_is_another(world: World, chance: Random) -> None:
    opened = world.open()
    world.forbid()
    call = world.approved(opened.run)
    run = Run.objects.get(pk=opened.run.pk)
    if run.catalog is None:
        raise Admitted("the run has no catalog")
    if chance.random() < 0.5:
        run.catalog["tools"][WRITE]["digest"] = f"sha256:{chance.getrandbits(256):064x}"
    else:
        del run.catalog["tools"][WRITE]
    run.save(update_fields=["catalog"])
    world.must_be_refused(call)
    world.end(opened.run)


@attempt("stale fence")
def an_overtaken_worker_goes_on(world: World, chance: Random) -> None:
    run, old = _claimed(world)
    world.forbid()
    Run.objects.filter(pk=run.pk).update(claim_expires_at=Now())
    new = claim_run(run_id=run.pk, worker="the next")
    if new is None or new <= old:
        raise Admitted("nobody could take the run over")
    world.must_refuse(lambda: _turn(world, run, old), "stale_fence")
    stop_run(run_id=run.pk, member=world.member)
    with transaction.atomic(), fenced(run_id=run.pk, fence=new) as locked:
        finish_run(run=locked, outcome=Run.Outcome.STOPPED)


@attempt("stale fence")
def a_worker_guesses_a_fence(world: World, chance: Random) -> None:
    run, fence = _claimed(world)
    world.forbid()
    guess = fence + chance.choice([-1, 1, 2, 1000])
    world.must_refuse(lambda: _turn(world, run, guess), "stale_fence")
    with fenced(run_id=run.pk, fence=fence) as locked:
        finish_run(run=locked, outcome=Run.Outcome.STOPPED)


def _claimed(world: World) -> tuple[Run, int]:
    """A run of our own engine that this process holds."""
    with transaction.atomic():
        seat = lock_seat(room_id=world.room.pk, agent_slug=world.agent.slug)
        if seat is None:
            raise Admitted("the agent has no seat")
        started = start_run(seat=seat, member=world.member, text="Hello", position=1)
    if started.run is None:
        raise Admitted("another run is still active")
    fence = claim_run(run_id=started.run.pk, worker=world.name)
    if fence is None:
        raise Admitted("the run could not be claimed")
    run = Run.objects.select_related("agent").get(pk=started.run.pk)
    run.save(update_fields=freeze(run))
    return run, fence


def _turn(world: World, run: Run, fence: int) -> None:
    """What a worker does with a call that its model asked for."""
    with fenced(run_id=run.pk, fence=fence) as locked:
        call = propose(
            run=locked,
            step=1,
            place=0,
            proposal=Proposal(
                world.mark, "create_artifact", json.dumps({**NOTE, "title": world.mark})
            ),
        )
        cross(run=locked, call=lock_call(call.pk))


@attempt("outside the catalog")
def a_tool_that_is_not_there(world: World, chance: Random) -> None:
    world.forbid()
    name = chance.choice(
        ["no_such_tool", f"{WRITE} ", WRITE.upper(), "pkg_other_send", "../" + WRITE, ""]
    )
    try:
        call = world.propose(tool=name)
    except Refusal:
        return
    world.must_not_run(call)


@attempt("outside the catalog")
def arguments_that_the_schema_does_not_know(world: World, chance: Random) -> None:
    world.forbid()
    extra: dict[str, Any] = chance.choice(
        [{"actor": 1}, {"mark": 5}, {"approved": True}, {"receipt": "yes"}, {"mark": "x" * 81}]
    )
    call = world.propose(tool=chance.choice([WRITE, READ]), **extra)
    if call.outcome != Outcome.REFUSED.value:
        raise Admitted(f"the call is {call.state} {call.outcome}")
    world.must_not_run(call)
