"""How do things stand for a run right now? Everything that a decision reads, in one query.

It is read after the run's row was locked, in a statement of its own: what the locking statement
itself saw of other rows may be older than the lock.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    CharField,
    DateTimeField,
    Exists,
    F,
    Func,
    IntegerField,
    OuterRef,
    QuerySet,
    Subquery,
    TextField,
    UUIDField,
    Value,
)

from apps.accounts.permissions import Permission, held_by
from apps.approvals.wishes import RunAsking, chosen_mode, rules_about
from apps.automations.selectors import grant_state, unattended_is_on
from apps.core.prepared import Given, Prepared, both
from apps.domain.policy import GrantState, Narrowing
from apps.grants.policy import DeploymentPolicy, policy_mark, policy_under
from apps.grants.selectors import kept_tools, narrowing
from apps.rooms.models import Participant, Room
from apps.runs.claims import locking_run_of_token
from apps.runs.errors import RunNotFound
from apps.runs.models import Call, Run
from apps.tools.contract import Tool


@dataclass(frozen=True, slots=True)
class Standing:
    """What is true of a run at this moment, whatever was read before."""

    run: Run
    """With its room, agent and member; without its catalog."""
    may_take_part: bool
    asking: RunAsking
    others_in_room: bool
    catalog_digest: str | None
    """The digest under which the run's catalog froze the tool; None where it is not in it."""
    last_step: int
    known_call: uuid.UUID | None
    """The call that an earlier proposal with the same id stored."""
    policy: DeploymentPolicy
    """The tool policy of the deployment, with what it pins."""
    member_choice: Narrowing
    """What the member keeps of the agent's tools in this room."""
    grant: GrantState | None
    """How the standing grant behind the run stands; None where nobody can say."""


def read_standing(*, run_id: Any, tool: str, proposal_id: str = "") -> Standing:
    """Read how things stand for a run, for one tool of its catalog."""
    run = _STANDING.first(run=run_id, tool=tool, proposal=proposal_id)
    if run is None:
        raise RunNotFound("There is no such run.")
    return _standing_of(run)


def lock_and_read_standing(
    *, token_hash: str, tool: str, proposal_id: str
) -> tuple[Run, Standing] | None:
    """Lock the live run that a token stands for and read how things stand for it; None without one.

    One round trip, and two statements: the second sees what was committed when the lock was there.
    """
    locked, found = both(
        locking_run_of_token(token_hash),
        _STANDING_OF_TOKEN.asked(token=token_hash, tool=tool, proposal=proposal_id),
    )
    return (locked[0], _standing_of(found[0])) if locked and found else None


def _standing_of(run: Any) -> Standing:
    return _standing(
        run,
        run,
        catalog_digest=run.frozen_digest,
        last_step=run.last_step or 0,
        known_call=run.known_call,
        grant=_grant(run, run.grant_state),
    )


def alone_until_commit(run: Run) -> bool:
    """Tell whether a run's member is alone in its room, and stays so until this transaction ends.

    Whoever joins locks the room first. It is the last lock of all, so it is taken only for a tool
    that reads what is private, and whose call nothing else refuses.
    """
    Room.objects.select_for_update(no_key=True).values_list("pk").get(pk=run.room_id)
    others = Participant.objects.filter(room_id=run.room_id, left_at=None)
    return not others.exclude(user_id=run.member_id).exists()


def foresee(*, run: Run, tool: Tool) -> Standing:
    """Read how things would stand for a run that nobody has started, with this tool offered to it.

    Nothing is written: the run only names room, agent and member, which need not fit together.
    """
    rows: QuerySet[Any] = Room.objects.filter(pk=run.room_id).annotate(
        room=F("pk"),
        room_id=F("pk"),
        agent=Value(run.agent_id, UUIDField()),
        agent_id=Value(run.agent_id, UUIDField()),
        member=Value(run.member_id, IntegerField()),
        member_id=Value(run.member_id, IntegerField()),
        trigger=Value(run.trigger, CharField()),
        automation_id=Value(run.automation_id, UUIDField()),
        automation_revision=Value(run.automation_revision, IntegerField()),
        authority_until=Value(run.authority_until, DateTimeField()),
    )
    place: Any = _around(
        rows.annotate(grant_state=grant_state()), Value(tool.spec.name, CharField())
    ).get()
    return _standing(
        run,
        place,
        catalog_digest=tool.digest,
        last_step=0,
        known_call=None,
        grant=_grant(run, place.grant_state),
    )


def _grant(run: Run, read: str | None) -> GrantState | None:
    if not run.unattended and run.automation_id is None:
        return GrantState.NOT_NEEDED
    if not unattended_is_on():
        return GrantState.NOT_READY
    return None if read is None else GrantState(read)


def _standing(run: Run, read: Any, **of_run: Any) -> Standing:
    return Standing(
        run=run,
        may_take_part=read.may_take_part,
        asking=RunAsking(read.asking_mode, read.asking_rules),
        others_in_room=read.others_in_room,
        policy=policy_under(read.policy_mark),
        member_choice=narrowing(read.kept),
        **of_run,
    )


def _around(rows: QuerySet[Any], tool: Any) -> QuerySet[Any]:
    """Read along what holds around rows that have a room, an agent and a member."""
    others = Participant.objects.filter(room_id=OuterRef("room_id"), left_at=None).exclude(
        user_id=OuterRef("member_id")
    )
    read: QuerySet[Any] = rows.annotate(
        may_take_part=held_by(Permission.ROOM_TAKE_PART, Room, user="member_id", obj="room_id"),
        others_in_room=Exists(others),
        asking_mode=chosen_mode(),
        asking_rules=rules_about(tool),
        policy_mark=policy_mark(),
        kept=kept_tools(
            room=OuterRef("room_id"), agent=OuterRef("agent_id"), member=OuterRef("member_id")
        ),
    )
    return read


# The catalog is large and one entry of it counts here; a persona may be long. Nothing is decided
# by the rest, and reading a moment costs as much as ten words.
_NOT_ASKED = (
    "catalog", "created_at", "updated_at", "token_hash", "token_expires_at", "claim_expires_at",
    "room__created_at", "room__updated_at",
    "agent__persona", "agent__created_at", "agent__updated_at",
    "member__password", "member__last_login", "member__date_joined",
)  # fmt: skip


def _query(**which: Given) -> QuerySet[Run]:
    calls = Call.objects.order_by().filter(run_id=OuterRef("pk"))
    known = calls.filter(proposal_id=Given("proposal", CharField()))
    frozen = Func(
        F("catalog"),
        Value("tools"),
        Given("tool", CharField()),
        Value("digest"),
        function="jsonb_extract_path_text",
        output_field=TextField(),
    )
    rows: QuerySet[Run] = (
        Run.objects.select_related("room", "agent", "member")
        .defer(*_NOT_ASKED)
        .order_by()
        .filter(**which)
        .annotate(
            frozen_digest=frozen,
            last_step=Subquery(calls.order_by("-step").values("step")[:1]),
            known_call=Subquery(known.values("pk")[:1]),
            grant_state=grant_state(),
        )
    )
    return _around(rows, Given("tool", CharField()))


_STANDING = Prepared(lambda: _query(pk=Given("run", UUIDField())))
_STANDING_OF_TOKEN = Prepared(lambda: _query(token_hash=Given("token", CharField())))
