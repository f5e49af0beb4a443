"""How is an agent made, changed, shared and switched off?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, give, take
from apps.accounts.selectors import active_member_called, member_called
from apps.agents.errors import AgentNotFound, BadAgent, SlugTaken, StaleRevision, TooManyAgents
from apps.agents.models import Agent
from apps.agents.selectors import may_manage
from apps.audit.services import record
from apps.core.errors import Conflict, Forbidden
from apps.domain.tooling import Capability
from apps.domain.words import shown

MAX_OWNED = 100
MAX_PERSONA = 20_000
CHANGEABLE = (
    "name",
    "description",
    "persona",
    "ceiling",
    "model_name",
    "parallel_tool_calls",
    "sees_images",
    "inactivity_s",
    "budget_s",
    "context_tokens",
    "enabled",
)
BOUNDS = {
    "inactivity_s": (1, 600),
    "budget_s": (1, 86_400),
    "context_tokens": (2_000, 2_000_000),
}
"""What an owner may set of an agent's own bounds. The deployment's bounds hold besides."""

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Role(StrEnum):
    """As what an agent is shared with somebody; its owner is neither."""

    GUEST = "guest"
    COLLABORATOR = "collaborator"


@transaction.atomic
def create_agent(
    *,
    owner: User,
    slug: str,
    name: str,
    description: str = "",
    persona: str = "",
    ceiling: Iterable[str] = (),
    model_name: str = "",
) -> Agent:
    """Make an agent that its owner uses and manages."""
    if not owner.is_active:
        raise Forbidden("You may not make agents.")
    if len(slug) > 40 or not _SLUG.fullmatch(slug):
        raise BadAgent(
            "A slug has 1 to 40 lower-case letters and digits, in words joined by hyphens.",
            field="slug",
        )
    # Two at once could each see room for one more.
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    if Agent.objects.filter(owner=owner).count() >= MAX_OWNED:
        raise TooManyAgents(f"A member owns at most {MAX_OWNED} agents.")
    fields = {
        "name": name,
        "description": description,
        "persona": persona,
        "ceiling": ceiling,
        "model_name": model_name,
    }
    checked = {field: _checked(field, value) for field, value in fields.items()}
    try:
        with transaction.atomic():
            agent = Agent.objects.create(owner=owner, slug=slug, **checked)
    except IntegrityError:
        raise SlugTaken(f"There is an agent with the slug {slug} already.", field="slug") from None
    give(owner, Permission.AGENT_USE, agent)
    give(owner, Permission.AGENT_MANAGE, agent)
    record(
        actor=owner,
        action="agent.created",
        subject=agent,
        detail={"slug": slug, "ceiling": checked["ceiling"]},
    )
    return agent


@transaction.atomic
def change_agent(
    *, agent_id: Any, actor: User, changes: Mapping[str, Any], revision: int | None = None
) -> Agent:
    """Change fields of an agent, on top of the revision that the writer saw where one is named."""
    agent = lock_managed_agent(agent_id=agent_id, actor=actor)
    if revision is not None and agent.revision != revision:
        raise StaleRevision(
            f"The agent is at revision {agent.revision}, not {revision}. Load it again.",
            field="revision",
        )
    unknown = [name for name in changes if name not in CHANGEABLE]
    if unknown:
        raise BadAgent(f"{shown(unknown[0])} of an agent cannot be changed.", field=unknown[0][:60])
    checked = {field: _checked(field, value) for field, value in changes.items()}
    changed = sorted(field for field, value in checked.items() if getattr(agent, field) != value)
    if not changed:
        return agent
    for field in changed:
        setattr(agent, field, checked[field])
    agent.revision += 1
    agent.save(update_fields=[*changed, "revision", "updated_at"])
    detail: dict[str, Any] = {"slug": agent.slug, "fields": changed, "revision": agent.revision}
    if "ceiling" in changed:
        detail["ceiling"] = agent.ceiling
    if "enabled" in changed:
        detail["enabled"] = agent.enabled
    record(actor=actor, action="agent.changed", subject=agent, detail=detail)
    return agent


def disable_agent(*, agent_id: Any, actor: User) -> Agent:
    """Switch an agent off: it takes no new seat and starts no new run."""
    return change_agent(agent_id=agent_id, actor=actor, changes={"enabled": False})


def enable_agent(*, agent_id: Any, actor: User) -> Agent:
    """Switch an agent on again."""
    return change_agent(agent_id=agent_id, actor=actor, changes={"enabled": True})


@transaction.atomic
def share_agent(
    *, agent_id: Any, sharer: User, username: str, role: str = Role.GUEST.value
) -> User:
    """Let another member use an agent, or look after it as well; sharing again changes the role.

    A guest gives it seats in rooms that they take part in. A collaborator may change it besides,
    and share it further; only its owner cannot lose it.
    """
    agent = lock_managed_agent(agent_id=agent_id, actor=sharer)
    guest = active_member_called(username)
    if role not in list(Role):
        raise BadAgent(f"A role is one of {', '.join(Role)}.", field="role")
    if guest.pk == agent.owner_id:
        raise Conflict("The owner of an agent keeps it.", field="username")
    give(guest, Permission.AGENT_USE, agent)
    if role == Role.COLLABORATOR:
        give(guest, Permission.AGENT_MANAGE, agent)
    else:
        take(guest, Permission.AGENT_MANAGE, agent)
    record(
        actor=sharer,
        action="agent.shared",
        subject=agent,
        detail={"slug": agent.slug, "member": guest.key, "role": str(role)},
    )
    return guest


@transaction.atomic
def unshare_agent(*, agent_id: Any, sharer: User, username: str) -> None:
    """Take back what `share_agent` gave. Seats that the agent has stay."""
    agent = lock_managed_agent(agent_id=agent_id, actor=sharer)
    guest = member_called(username)
    if guest.pk == agent.owner_id:
        raise Conflict("The owner of an agent keeps it.", field="username")
    take(guest, Permission.AGENT_USE, agent)
    take(guest, Permission.AGENT_MANAGE, agent)
    record(
        actor=sharer,
        action="agent.unshared",
        subject=agent,
        detail={"slug": agent.slug, "member": guest.key},
    )


def lock_managed_agent(*, agent_id: Any, actor: User) -> Agent:
    """Lock an agent for a change by somebody who manages it, or refuse."""
    agent: Agent | None = (
        Agent.objects.select_for_update(no_key=True, of=("self",))
        .select_related("owner")
        .filter(pk=agent_id)
        .first()
    )
    if agent is None:
        raise AgentNotFound("No agent that you may use has that name.")
    if not may_manage(actor, agent):
        raise Forbidden("Only who manages an agent can change it.")
    return agent


def _checked(field: str, value: Any) -> Any:
    match field:
        case "ceiling":
            return _ceiling(value)
        case "enabled" | "parallel_tool_calls" | "sees_images":
            return bool(value)
        case "inactivity_s" | "budget_s" | "context_tokens":
            return _bound(field, value)
        case "name":
            return _line(field, value, least=1, most=80)
        case "description":
            return _line(field, value, least=0, most=300)
        case "model_name":
            return _line(field, value, least=0, most=120)
        case _:
            if len(value) > MAX_PERSONA or "\x00" in value:
                raise BadAgent(
                    f"A persona has at most {MAX_PERSONA:,} characters, NUL not among them.",
                    field=field,
                )
            return value


def _bound(field: str, value: int | None) -> int | None:
    least, most = BOUNDS[field]
    if value is not None and not least <= value <= most:
        raise BadAgent(f"{field} is {least:,} to {most:,}, or nothing.", field=field)
    return value


def _line(field: str, value: str, *, least: int, most: int) -> str:
    clean = " ".join(value.split())
    if not least <= len(clean) <= most or not clean.isprintable():
        raise BadAgent(f"{field} has {least} to {most} printable characters.", field=field)
    return clean


def _ceiling(value: Iterable[str]) -> list[str]:
    """Return the capabilities in one order, each once; an unknown word is refused."""
    asked = set()
    for word in value:
        try:
            asked.add(Capability(word))
        except ValueError:
            known = ", ".join(capability.value for capability in Capability)
            raise BadAgent(
                f"{shown(str(word))} is no capability. There are {known}.", field="ceiling"
            ) from None
    return sorted(capability.value for capability in asked)
