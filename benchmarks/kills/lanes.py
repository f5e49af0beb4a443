"""The partner that makes rooms to live in, and answers what the database says of what happened."""

from __future__ import annotations

import json
import sys
from typing import Any

import django

django.setup()

from apps.accounts.models import User  # noqa: E402
from apps.accounts.tokens import make_token  # noqa: E402
from apps.agents.services import create_agent  # noqa: E402
from apps.domain.tooling import Capability  # noqa: E402
from apps.rooms.services import create_room  # noqa: E402
from apps.runs.services import add_seat  # noqa: E402


def make_lanes(count: int) -> list[dict[str, Any]]:
    """Make members with a room, an agent and a token each."""
    lanes = []
    for number in range(count):
        member = User.objects.create_user(username=f"lane{number}", password="a long enough one")
        agent = create_agent(
            owner=member,
            slug=f"clerk{number}",
            name="Clerk",
            ceiling=[capability.value for capability in Capability],
        )
        room = create_room(creator=member, name=f"Lane {number}")
        add_seat(room_id=room.pk, member=member, agent_slug=agent.slug)
        lanes.append(
            {"token": make_token(user=member)[1], "room": str(room.pk), "agent": agent.slug}
        )
    return lanes


for line in sys.stdin:
    match json.loads(line)["what"]:
        case "lanes":
            print(json.dumps({"lanes": make_lanes(json.loads(line)["count"])}), flush=True)
