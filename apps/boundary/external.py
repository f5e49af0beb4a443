"""How does another runtime work under the boundary? A run token, one run, the same six steps.

The token is bound to one run of one member, agent and room, is stored only as a hash, and dies
with the run. It says which run speaks; what that run may do is read again at every call.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import CharField
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import record
from apps.boundary.crossing import Crossed
from apps.boundary.errors import BadProposal
from apps.boundary.lost import lost_place
from apps.boundary.pipeline import cross
from apps.boundary.proposing import (
    MAX_PROPOSAL_ID,
    Proposal,
    demand_same,
    draft_call,
    introduce,
    tool_name,
)
from apps.boundary.senders import (
    BOUND,
    PLAIN,
    BadKey,
    BadToken,
    Sender,
    admit,
    demand_key,
)
from apps.boundary.services import close_waiting_calls
from apps.boundary.standing import Standing, lock_and_read_standing, read_standing
from apps.core.correlation import bind_correlation_id, current_correlation_id
from apps.core.errors import Conflict, Forbidden, NotFound
from apps.core.prepared import Given, Prepared
from apps.core.throttles import Limit, spend
from apps.rooms.selectors import visible_room
from apps.rooms.services import lock_open_room, publish_event, room_last
from apps.runs.claims import demand_hold, fenced, lock_call, lock_run
from apps.runs.errors import RunOver
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.selectors import visible_run
from apps.runs.services import (
    actor_of,
    agent_card,
    append_journal,
    finish_run,
    lock_seat,
    member_card,
)
from apps.sandbox.session_ends import ask_to_close, failure_of, open_sessions
from apps.tools.catalog import freeze

TOKEN_FOR = timedelta(hours=12)
UNKNOWN_TOKEN = "This run token is unknown, has expired, or its run has ended."  # noqa: S105
CALLS_PER_MINUTE = 60_000
"""Per run: a bound against a runtime that has run wild, far above what work needs."""
EXTERNAL_FENCE = 1
MAX_FINAL_TEXT = 20_000
MAX_OPEN_RUNS = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that another runtime drives, and its token, which is shown this once."""

    run: Run
    token: str
    expires_at: datetime

    @property
    def token_type(self) -> str:
        """The scheme under which the token is sent."""
        return BOUND if self.run.token_key else PLAIN


@transaction.atomic
def open_external_run(*, room_id: Any, member: User, agent_slug: str, key: str = "") -> Opened:
    """Start a run for another runtime, with its catalog frozen.

    With the thumbprint of a key, only whoever holds that key can use the token.
    """
    demand_key(key)
    visible_room(room_id=room_id, user=member)
    # Two at once could each see room for one more run.
    User.objects.select_for_update(no_key=True).get(pk=member.pk)
    seat = lock_seat(room_id=room_id, agent_slug=agent_slug)
    room = lock_open_room(room_id)
    require(member, Permission.ROOM_TAKE_PART, room)
    if seat is None or not seat.agent.enabled:
        raise NotFound("That agent has no place in this room.", field="agent")
    mine = Run.objects.filter(member=member, runtime=Run.Runtime.EXTERNAL)
    if mine.exclude(state=Run.State.FINISHED).count() >= MAX_OPEN_RUNS:
        raise Conflict(f"You have {MAX_OPEN_RUNS} open runs of other runtimes. Finish one first.")
    token = secrets.token_urlsafe(32)
    expires_at = timezone.now() + TOKEN_FOR
    run = Run(
        room=room,
        agent=seat.agent,
        member=member,
        runtime=Run.Runtime.EXTERNAL,
        state=Run.State.RUNNING,
        fence=EXTERNAL_FENCE,
        claimed_by="external",
        token_hash=_hash(token),
        token_expires_at=expires_at,
        token_key=key,
        deadline_at=expires_at,
        correlation_id=current_correlation_id(),
    )
    freeze(run)
    run.save(force_insert=True)
    record(
        actor=member,
        action="run.started",
        subject=run,
        detail={"agent": seat.agent.slug, "runtime": "external", "key": key},
    )
    publish_event(
        room_id=room.pk,
        kind="run.started",
        actor=member,
        data={
            "run": str(run.pk),
            "agent": agent_card(seat.agent),
            "member": member_card(member),
            "runtime": "external",
        },
    )
    return Opened(run=run, token=token, expires_at=expires_at)


@transaction.atomic
def renew_run_token(*, run_id: Any, member: User, key: str = "") -> Opened:
    """Give a run of another runtime a new token; the one that it had opens nothing any more.

    For a token that was lost, as with the answer that carried it. The run's time stays as it was.
    A key that the run is bound to has to be shown again; one that was bound to none may get one.
    """
    demand_key(key)
    visible_run(run_id=run_id, user=member)
    run = lock_run(run_id)
    if run.member_id != member.pk:
        raise Forbidden("Only the member for whom a run works can have its token.")
    if run.runtime != Run.Runtime.EXTERNAL:
        raise Conflict("Kaizen drives this run itself, so it has no token.")
    if run.state == Run.State.FINISHED or run.token_expires_at is None:
        raise RunOver("The run has ended.")
    if run.token_key and not secrets.compare_digest(run.token_key, key):
        raise BadKey(
            "This run is bound to a key: a new token takes a proof under the same one."
            " Where the key is lost, stop the run and open another.",
            field=BOUND,
        )
    token = secrets.token_urlsafe(32)
    run.token_hash = _hash(token)
    run.token_key = key
    run.save(update_fields=["token_hash", "token_key", "updated_at"])
    record(actor=member, action="run.token_renewed", subject=run, detail={"key": key})
    return Opened(run=run, token=token, expires_at=run.token_expires_at)


def run_of_token(token: str) -> Run:
    """Return the live run that a token alone opens."""
    run = find_run(token)
    admit(Sender(token), run.token_key)
    return run


def find_run(token: str) -> Run:
    """Return the live run that a token stands for, whoever sends it."""
    run = _LIVE.first(token=_hash(token))
    if run is None:
        raise BadToken(UNKNOWN_TOKEN)
    return run


_LIVE = Prepared(
    # The catalog is large, and only one address reads it through this row.
    lambda: (
        Run.objects.select_related("member")
        .defer("catalog")
        .order_by()
        .filter(
            token_hash=Given("token", CharField()),
            token_expires_at__gt=Now(),
            member__is_active=True,
        )
        .exclude(state=Run.State.FINISHED)
    )
)


def call_tool(*, run: Run, name: str, arguments_text: str, proposal_id: str) -> Crossed:
    """Propose one call and take it as far as it goes at once."""
    proposal = _proposal(name, arguments_text, proposal_id)
    with fenced(run_id=run.pk, fence=EXTERNAL_FENCE) as locked:
        standing = read_standing(run_id=locked.pk, tool=tool_name(name), proposal_id=proposal_id)
        return _call(standing, proposal)


def call_from(*, sender: Sender, name: str, arguments_text: str, proposal_id: str) -> Crossed:
    """Do the same for whoever sends a token, counting the call: one lock, and one look.

    Nothing is read here after the call has ended, so its rows are written with the commit.
    """
    proposal = _proposal(name, arguments_text, proposal_id)
    with room_last(gather=True):
        found = lock_and_read_standing(
            token_hash=_hash(sender.token), tool=tool_name(name), proposal_id=proposal_id
        )
        if found is None:
            raise BadToken(UNKNOWN_TOKEN)
        run, standing = found
        admit(sender, run.token_key)
        demand_hold(run, EXTERNAL_FENCE)
        count_call(run)
        return _call(standing, proposal)


def count_call(run: Run) -> None:
    """Count a request of one run; a count that cannot be kept refuses."""
    spend(Limit("callback", CALLS_PER_MINUTE, 60), run.key)


def _proposal(name: str, arguments_text: str, proposal_id: str) -> Proposal:
    if not proposal_id or len(proposal_id) > MAX_PROPOSAL_ID or not proposal_id.isprintable():
        raise BadProposal(
            f"A proposal id has 1 to {MAX_PROPOSAL_ID} printable characters.", field="proposal_id"
        )
    return Proposal(proposal_id=proposal_id, name=name, arguments_text=arguments_text)


def _call(standing: Standing, proposal: Proposal) -> Crossed:
    """Draft a call of a run whose row is locked, and let it cross before anything is written."""
    run = standing.run
    # Whatever request carries it, the call belongs to the story of its run.
    bind_correlation_id(run.correlation_id)
    draft = draft_call(
        run=run,
        step=standing.last_step + 1,
        place=0,
        proposal=proposal,
        policy=standing.policy,
    )
    if standing.known_call is not None:
        known = demand_same(lock_call(standing.known_call), draft)
        return cross(run=run, call=known, standing=standing)
    introduce(run, draft)
    return cross(run=run, call=draft.call, standing=standing)


def finish_external_run(*, run: Run, text: str, failed: bool = False) -> None:
    """End the run with its runtime's last word, as completed or as what it calls a failure."""
    if len(text) > MAX_FINAL_TEXT:
        raise BadProposal(f"A last word has at most {MAX_FINAL_TEXT:,} characters.", field="text")
    unclean = _cleaned_up(run)
    with fenced(run_id=run.pk, fence=EXTERNAL_FENCE) as locked:
        if Call.objects.running().filter(run=locked).exists():
            raise Conflict("A call of this run is still running. Wait for it, or stop the run.")
        if why := lost_place(locked):
            raise Conflict(f"{why} Nothing more can be said for this run, which ends by itself.")
        close_waiting_calls(run=locked, actor=locked.member, message="The runtime ended the run.")
        append_journal(
            run=locked, kind=JournalEntry.Kind.ASSISTANT, body={"text": text, "calls": []}
        )
        if text.strip() and not unclean:
            publish_event(
                room_id=locked.room_id,
                kind="message.posted",
                actor=actor_of(locked.agent),
                data={
                    "author": {"kind": "agent", **agent_card(locked.agent)},
                    "text": text,
                    "run": str(locked.pk),
                    "for": member_card(locked.member),
                },
            )
        if unclean:
            finish_run(run=locked, outcome=Run.Outcome.FAILED, explanation=unclean)
        elif failed:
            finish_run(
                run=locked,
                outcome=Run.Outcome.FAILED,
                explanation="Its runtime says that it failed.",
            )
        else:
            finish_run(run=locked, outcome=Run.Outcome.COMPLETED)


def _cleaned_up(run: Run) -> str:
    """Return what of a run's sessions could not be cleaned up, once none of them lives any more.

    Until then the runtime is told to come again: nobody's thread waits here, and workers end them.
    """
    if open_sessions(run.pk).exists() and not Call.objects.running().filter(run=run).exists():
        ask_to_close(run_id=run.pk)
        raise Conflict("The sessions of its tools are being ended. Say it again in a moment.")
    return failure_of(run.pk)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
