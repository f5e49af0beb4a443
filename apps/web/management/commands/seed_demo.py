"""What does a newcomer find on first start? Two members, an administrator, an agent and a room."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from apps.accounts.models import User
from apps.agents.services import create_agent
from apps.domain.tooling import Capability
from apps.rooms.services import create_room, invite
from apps.runs.services import add_seat

PEOPLE = (
    ("ines", "Ines Moreau", "administrator"),
    ("mara", "Mara Lindqvist", "member"),
    ("tomas", "Tomás Ferreira", "member"),
)
PERSONA = (
    "You help the people in this room to write things down well. You keep what you make as"
    " artifacts, and you say plainly what you did and what you did not."
)


class Command(BaseCommand):
    help = "Seed the demonstration once; print its sign-ins as one line of JSON, always."

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(settings.KAIZEN_STATE_DIR) / "demo-sign-ins.json"
        if not User.objects.exists():
            # Written first: a crash in between leaves passwords without accounts, never the
            # other way round, and the next start invents new ones.
            sign_ins = [
                {"username": username, "password": secrets.token_urlsafe(12), "role": role}
                for username, _, role in PEOPLE
            ]
            _write_private(path, json.dumps({"sign_ins": sign_ins}))
            _seed({entry["username"]: entry["password"] for entry in sign_ins})
        known = json.loads(path.read_text()) if path.exists() else {"sign_ins": []}
        self.stdout.write(json.dumps(known))


@transaction.atomic
def _seed(passwords: dict[str, str]) -> None:
    people = {
        username: User.objects.create_user(
            username=username,
            password=passwords[username],
            display_name=name,
            is_staff=role == "administrator",
            is_superuser=role == "administrator",
        )
        for username, name, role in PEOPLE
    }
    mara = people["mara"]
    agent = create_agent(
        owner=mara,
        slug="scribe",
        name="Scribe",
        description="Writes things down and keeps them as artifacts.",
        persona=PERSONA,
        ceiling=[capability.value for capability in Capability],
    )
    room = create_room(creator=mara, name="First light")
    invite(room_id=room.pk, inviter=mara, username="tomas")
    add_seat(room_id=room.pk, member=mara, agent_slug=agent.slug)


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
