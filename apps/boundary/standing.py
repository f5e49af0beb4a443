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
    Exists,
    F,
    Func,
    OuterRef,
    QuerySet,
    Subquery,
    TextField,
    UUIDField,
    Value,
)

from apps.accounts.permissions import Permission, held_by
from apps.approvals.wishes import RunAsking, chosen_mode, rules_about
from apps.core.prepared import Given, Prepared
from apps.domain.policy import Narrowing
from apps.grants.policy import DeploymentPolicy, policy_mark, policy_under
from apps.grants.selectors import kept_tools, narrowing
from apps.rooms.models import Participant, Room
from apps.runs.errors import RunNotFound
from apps.runs.models import Call, Run


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


def read_standing(*, run_id: Any, tool: str, proposal_id: str = "") -> Standing:
    """Read how things stand for a run, for one tool of its catalog."""
    run: Any = _STANDING.first(run=run_id, tool=tool, proposal=proposal_id)
    if run is None:
        raise RunNotFound("There is no such run.")
    return Standing(
        run=run,
        may_take_part=run.may_take_part,
        asking=RunAsking(run.asking_mode, run.asking_rules),
        others_in_room=run.others_in_room,
        catalog_digest=run.frozen_digest,
        last_step=run.last_step or 0,
        known_call=run.known_call,
        policy=policy_under(run.policy_mark),
        member_choice=narrowing(run.kept),
    )


def _query() -> QuerySet[Run]:
    others = Participant.objects.filter(room_id=OuterRef("room_id"), left_at=None).exclude(
        user_id=OuterRef("member_id")
    )
    calls = Call.objects.filter(run_id=OuterRef("pk"))
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
        # The catalog is large and one entry of it counts here; a persona may be long.
        .defer("catalog", "agent__persona")
        .filter(pk=Given("run", UUIDField()))
        .annotate(
            may_take_part=held_by(Permission.ROOM_TAKE_PART, Room, user="member_id", obj="room_id"),
            others_in_room=Exists(others),
            asking_mode=chosen_mode(),
            asking_rules=rules_about(Given("tool", CharField())),
            frozen_digest=frozen,
            last_step=Subquery(calls.order_by("-step").values("step")[:1]),
            known_call=Subquery(known.values("pk")[:1]),
            policy_mark=policy_mark(),
            kept=kept_tools(
                room=OuterRef("room_id"), agent=OuterRef("agent_id"), member=OuterRef("member_id")
            ),
        )
    )
    return rows


_STANDING = Prepared(_query)
