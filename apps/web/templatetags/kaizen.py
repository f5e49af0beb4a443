"""How do templates show icons, pictures, moments and states?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import structlog
from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest
from apps.automations.models import Automation
from apps.core.correlation import KEY
from apps.domain.tooling import Effect, Outcome

register = template.Library()

_EFFECTS = {
    Effect.READ: ("", "eye", "Reads"),
    Effect.WRITE: ("info", "pen", "Writes"),
    Effect.SENSITIVE: ("bad", "shieldx", "Sensitive"),
}
_DECISIONS = {
    ApprovalRequest.State.APPROVED: ("ok", "ok", "Approved"),
    ApprovalRequest.State.DENIED: ("", "x", "Denied"),
    ApprovalRequest.State.REPLACED: ("", "pen", "Arguments changed"),
    ApprovalRequest.State.EXPIRED: ("", "clock", "Ran out of time, nothing happened"),
    ApprovalRequest.State.WITHDRAWN: ("", "stop", "Withdrawn, nothing happened"),
}
_THEN = {
    Outcome.OK: ", done",
    Outcome.ERROR: ", then failed",
    Outcome.RAISED: ", then failed",
    Outcome.TIMEOUT: ", then failed",
    Outcome.ABANDONED: ", then failed",
    Outcome.AMBIGUOUS: ", outcome unknown",
    Outcome.STOPPED: ", then stopped",
    Outcome.REFUSED: ", then not allowed",
}


_AUTOMATIONS = {
    Automation.State.ACTIVE: ("ok", "ok"),
    Automation.State.PAUSED: ("wait", "clock"),
    Automation.State.EXPIRED: ("", "clock"),
    Automation.State.REVOKED: ("", "ban"),
}


@register.simple_tag
def automation_state(automation: Automation) -> SafeString:
    """Draw how an automation stands."""
    state = automation.state
    tone, name = _AUTOMATIONS[state]
    return format_html('<span class="state {}">{}{}</span>', tone, icon(name), state.label)


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """Draw an icon that screen readers skip."""
    return format_html('<i class="i i-{} {}" aria-hidden="true"></i>', name, extra)


def tint(name: str) -> int:
    """Return a steady tint for a name, from 1 to 5, the same as in the browser."""
    total = 0
    for letter in name:
        total = (total * 31 + ord(letter)) % 9973
    return total % 5 + 1


@register.simple_tag
def person(user: User, extra: str = "") -> SafeString:
    """Draw a person's round picture."""
    return format_html(
        '<span class="av a{} {}" aria-hidden="true">{}</span>',
        tint(user.username),
        extra,
        user.initials,
    )


@register.simple_tag
def agent(name: str, extra: str = "") -> SafeString:
    """Draw an agent's square picture; its tint follows the name."""
    return format_html(
        '<span class="av ag a{} {}" aria-hidden="true">{}</span>',
        tint(name),
        extra,
        name[:1].upper(),
    )


@register.simple_tag
def effect(word: str) -> SafeString:
    """Draw what a tool does to the world; what is not declared counts as sensitive."""
    known = Effect(word) if word in Effect.__members__.values() else Effect.SENSITIVE
    tone, name, text = _EFFECTS[known]
    return format_html('<span class="tag {}">{}{}</span>', tone, icon(name), text)


@register.simple_tag
def decision(request: ApprovalRequest, reader: User) -> SafeString:
    """Say how a question was decided and what came of it."""
    tone, name, text = _DECISIONS[ApprovalRequest.State(request.state)]
    if request.decided_by is not None:
        text += " by you" if request.decided_by == reader else f" by {request.decided_by.name}"
    if request.state == ApprovalRequest.State.APPROVED and request.call.outcome:
        text += _THEN.get(Outcome(request.call.outcome), "")
    elif request.comment:
        text += f": “{request.comment}”"
    return format_html('<span class="state {}">{}{}</span>', tone, icon(name), text)


@register.filter
def ago(moment: datetime | None) -> str:
    """Say how long ago something was: in hours up to a day, then as a date."""
    if moment is None:
        return ""
    passed = timezone.now() - moment
    if passed < timedelta(minutes=1):
        return "just now"
    if passed < timedelta(hours=1):
        return f"{int(passed.total_seconds() // 60)} min ago"
    if passed < timedelta(days=1):
        return f"{int(passed.total_seconds() // 3600)} h ago"
    text = f"{moment.day} {moment:%b}"
    return text if moment.year == timezone.now().year else f"{text} {moment.year}"


@register.filter
def digest(value: str) -> str:
    """Shorten a digest to what two people can compare by eye, as in the browser."""
    algorithm, _, text = value.partition(":")
    return f"{algorithm} {text[:4]}…{text[-4:]}" if text else value


@register.filter
def left(moment: datetime) -> str:
    """Say how much time is left."""
    seconds = int((moment - timezone.now()).total_seconds())
    if seconds <= 0:
        return "time is up"
    for size, word in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size * (2 if word == "days" else 1):
            return f"{seconds // size} {word} left"
    return f"{seconds} s left"


@register.filter
def soon(moment: datetime) -> bool:
    """Tell whether little time is left."""
    return moment - timezone.now() < timedelta(minutes=10)


@register.simple_tag
def correlation_id() -> str:
    """Return the id under which this request is found in the log."""
    value: Any = structlog.contextvars.get_contextvars().get(KEY, "")
    return str(value)


@register.simple_tag(takes_context=True)
def list_name(context: template.Context, link: str, otherwise: str) -> str:
    """Call a list of the administration as the sidebar does."""
    groups: Any = context.get("sidebar_navigation") or ()
    items = (item for group in groups for item in group["items"])
    named = next((item["title"] for item in items if item["link"] == link), otherwise)
    return str(named)
