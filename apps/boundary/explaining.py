"""May this agent call that tool for this member in this room, and why? Asked without a call.

The facts come from where every call's facts come from, about a run that nobody started. Nothing is
written, and nothing that the one who asks may not see is told apart from what is not there.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.agents.models import Agent
from apps.automations.models import Automation
from apps.boundary.crossing import Crossing
from apps.boundary.standing import foresee
from apps.boundary.steps.decide import facts_of
from apps.core.errors import Invalid, NotFound
from apps.domain.policy import Answer, Explanation, Finding, Refuse, explain
from apps.domain.tooling import Reason
from apps.grants.policy import deployment_policy
from apps.quotas.selectors import spent_for_calls
from apps.rooms.models import Room
from apps.runs.models import Call, Run, Seat
from apps.tools.catalog import known_tool
from apps.tools.contract import Tool

MOST_OFFERED = 100
NO_SUCH_TOOL = "There is no tool of that name."
BY_ITSELF = "An automation has its own agent, room and member: name nothing besides."


class NothingToExplain(NotFound):
    """Room, agent or member are not there, or not for the one who asks."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An answer to the question, with what it was about."""

    member: User
    agent: Agent
    room: Room
    automation: Automation | None
    name: str
    tool: Tool | None
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Questions:
    """What a form can offer to ask about: some of each, newest or first by name."""

    agents: list[Agent]
    rooms: list[Room]
    members: list[User]
    automations: list[Automation]


def questions() -> Questions:
    """Return agents, open rooms and members to choose from, a bounded number of each."""
    return Questions(
        agents=list(Agent.objects.only("slug", "name").order_by("name")[:MOST_OFFERED]),
        rooms=list(
            Room.objects.filter(closed_at=None).only("name").order_by("-updated_at")[:MOST_OFFERED]
        ),
        members=list(User.objects.filter(is_active=True).order_by("username")[:MOST_OFFERED]),
        automations=list(
            Automation.objects.select_related("member")
            .filter(revoked_at=None)
            .order_by("-created_at", "-pk")[:MOST_OFFERED]
        ),
    )


def explain_call(
    *,
    asker: User,
    tool_name: str,
    agent_slug: str = "",
    room_id: Any = None,
    username: str = "",
    automation_id: Any = None,
) -> Explained:
    """Explain what would become of a call: members ask about themselves, administrators at all.

    It is about a run that the member starts, or about one that an automation of theirs does.
    """
    if automation_id:
        if agent_slug or room_id or username:
            raise Invalid(BY_ITSELF, field="automation")
        automation = _automation(asker, automation_id)
        run = _unattended(automation)
    else:
        for field, given in (("agent", agent_slug), ("room", room_id)):
            if not given:
                raise Invalid("Name an agent and a room, or an automation.", field=field)
        automation = None
        run = _prospect(asker=asker, agent_slug=agent_slug, room_id=room_id, username=username)
    found = known_tool(tool_name, run.agent, deployment_policy())
    if found is None:
        explanation = _no_such_tool()
    else:
        tool, held = found
        standing = foresee(run=run, tool=tool)
        call = Call(run=run, step=1, place=0, tool=tool.spec.name, descriptor_digest=tool.digest)
        explanation = explain(tool.spec, facts_of(call, tool, standing, held=held))
        if Crossing(run=run, call=call, tool=tool).leaves_us and (
            spent := spent_for_calls(member=run.member, agent=run.agent)
        ):
            refused = Refuse(Reason.QUOTA_EXCEEDED, spent, "quota_holds_it")
            explanation = explanation.then(refused, "Is a call left of what they may use?")
    return Explained(
        member=run.member,
        agent=run.agent,
        room=run.room,
        automation=automation,
        name=tool_name,
        tool=None if found is None else found[0],
        explanation=explanation,
    )


def _prospect(*, asker: User, agent_slug: str, room_id: Any, username: str) -> Run:
    """Return a run that is never written: who would work where for whom."""
    everyone = may(asker, Permission.POLICY_MANAGE)
    member = asker
    if username and username != asker.username:
        # Whether somebody has that name is nothing that a member is told.
        found = User.objects.filter(username=username).first() if everyone else None
        member = _demand(found)
    rooms = Room.objects.all() if everyone else Room.objects.visible_to(asker)
    room: Room = _demand(rooms.filter(pk=_demand(_uuid(room_id))).first())
    agent: Agent = _demand(Agent.objects.filter(slug=agent_slug).first())
    if not everyone and not _meets(asker, agent, room):
        _demand(None)
    return Run(room=room, agent=agent, member=member, correlation_id="")


def _automation(asker: User, automation_id: Any) -> Automation:
    rows: QuerySet[Any] = Automation.objects.all()
    if not may(asker, Permission.POLICY_MANAGE):
        rows = rows.filter(member=asker)
    rows = rows.select_related("agent", "room", "member")
    found: Automation = _demand(rows.filter(pk=_demand(_uuid(automation_id))).first())
    return found


def _unattended(automation: Automation) -> Run:
    """Return a run that is never written, as the automation would start one now."""
    return Run(
        room=automation.room,
        agent=automation.agent,
        member=automation.member,
        trigger=automation.trigger,
        automation_id=automation.pk,
        automation_revision=automation.revision,
        authority_until=automation.expires_at,
        correlation_id="",
    )


def _meets(member: User, agent: Agent, room: Room) -> bool:
    """Tell whether a member can know an agent: it is theirs to use, or sits in their room."""
    return (
        Seat.objects.filter(room=room, agent=agent).exists()
        or Agent.objects.visible_to(member).filter(pk=agent.pk).exists()
    )


def _uuid(given: Any) -> uuid.UUID | None:
    try:
        return uuid.UUID(str(given))
    except ValueError:
        return None


def _demand(found: Any) -> Any:
    if found is None:
        raise NothingToExplain(
            "There is no such room, agent, member or automation that you may ask about."
        )
    return found


def _no_such_tool() -> Explanation:
    rule = "tool_is_in_catalog"
    refusal = Refuse(Reason.OUTSIDE_CATALOG, NO_SUCH_TOOL, rule)
    answer = Answer(
        rule, "Is there such a tool?", Finding.REFUSED, NO_SUCH_TOOL, Reason.OUTSIDE_CATALOG
    )
    return Explanation(verdict=refusal, answers=(answer,))
