"""How many SQL statements does one admitted read cost? Printed as one JSON line."""

from __future__ import annotations

import json
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

import django

django.setup()

from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.boundary.external import open_external_run  # noqa: E402
from apps.runs.models import Seat  # noqa: E402

seat = Seat.objects.select_related("agent").first()
member = User.objects.get(username="mara")
assert seat is not None
opened = open_external_run(room_id=seat.room_id, member=member, agent_slug=seat.agent.slug)
client = Client(HTTP_HOST="127.0.0.1")


def call(proposal_id: str) -> None:
    """Make one call through the whole API."""
    answer = client.post(
        "/api/v1/callback/calls",
        json.dumps({"name": "list_available_agents", "arguments": {}, "proposal_id": proposal_id}),
        content_type="application/json",
        headers={"Authorization": f"Run {opened.token}"},
    )
    assert answer.status_code == 200, answer.content


call("warm")
with CaptureQueriesContext(
    connection,
) as captured:
    call("counted")
for query in captured.captured_queries:
    print(query["sql"][:160])
print(json.dumps({"statements": len(captured.captured_queries)}))
