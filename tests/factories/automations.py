"""Automations to test with, made by the product's own verbs, and made due by moving their row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.automations.models import Automation
from apps.automations.services import Granted, create_automation
from apps.automations.starting import start_due
from apps.rooms.models import Room
from apps.runs.claims import claim_run
from apps.runs.models import Run
from apps.tools.catalog import freeze

# What needs no sandbox: these tests have none.
OWN_TABLES = ["artifacts.read", "artifacts.write", "agents.read", "agents.invoke", "docs.read"]


def make_automation(
    member: User, agent: Agent, room: Room, *, trigger: str = "schedule", **fields: Any
) -> Granted:
    """An automation that is not due yet."""
    scheduled = {"schedule": "0 6 * * *"} if trigger == "schedule" else {}
    return create_automation(
        member=member,
        agent_slug=agent.slug,
        room_id=room.pk,
        trigger=trigger,
        **{
            "name": "weekly",
            "words": "Write the report.",
            "expires_at": timezone.now() + timedelta(days=30),
            **scheduled,
            **fields,
        },
    )


def make_due(automation: Automation) -> None:
    """Let an automation's time have come a minute ago."""
    Automation.objects.filter(pk=automation.pk).update(
        next_due_at=timezone.now() - timedelta(minutes=1)
    )


def started_run(automation: Automation) -> Run:
    """The run that an automation starts when it is due, held by this test's worker."""
    make_due(automation)
    started = start_due(automation_id=automation.pk)
    assert started is not None
    assert started.run is not None
    assert claim_run(run_id=started.run.pk, worker="test") == 1
    run = Run.objects.select_related("agent", "member", "room").get(pk=started.run.pk)
    freeze(run)
    run.save()
    return run
