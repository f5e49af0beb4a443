"""A member's automations have names of their own, whoever is quicker."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.automations.models import Automation
from apps.automations.services import change_automation
from apps.core.errors import Conflict
from apps.rooms.models import Room
from tests.factories.automations import make_automation


@pytest.mark.django_db(transaction=True)
def test_of_two_renames_to_one_name_at_once_one_is_told_that_it_is_taken(
    member: User, agent: Agent, room: Room
) -> None:
    named = [make_automation(member, agent, room, name=name).automation for name in ("a", "b")]
    gate = threading.Barrier(2)
    told: list[object] = []

    def rename(automation_id: UUID) -> None:
        gate.wait(10)
        try:
            change_automation(
                automation_id=automation_id, member=member, changes={"name": "weekly"}
            )
            told.append("renamed")
        except Exception as problem:  # noqa: BLE001 - told by the test's own thread
            told.append(type(problem))
        finally:
            connection.close()

    for _ in range(5):
        Automation.objects.filter(pk=named[0].pk).update(name="a")
        Automation.objects.filter(pk=named[1].pk).update(name="b")
        told.clear()
        renames = [threading.Thread(target=rename, args=[one.pk]) for one in named]
        for one in renames:
            one.start()
        for one in renames:
            one.join(20)
        assert sorted(told, key=str) == sorted(["renamed", Conflict], key=str)
