"""The partner of the boundary's benchmark: opens a run, and counts the statements of one call."""

from __future__ import annotations

import json
import sys

import django

django.setup()

from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.boundary.external import open_external_run  # noqa: E402
from apps.runs.models import Seat  # noqa: E402


def open_run() -> str:
    """Open a run of another runtime in the demonstration's room and return its token."""
    seat = Seat.objects.select_related("agent").earliest("created_at")
    member = User.objects.get(username="mara")
    return open_external_run(room_id=seat.room_id, member=member, agent_slug=seat.agent.slug).token


def statements() -> int:
    """Make two calls through the whole API and count the statements of the second."""
    token = open_run()
    _call(token, "warm")
    with CaptureQueriesContext(connection) as captured:
        _call(token, "counted")
    return len(captured.captured_queries)


def _call(token: str, proposal_id: str) -> None:
    body = {"name": "list_available_agents", "arguments": {}, "proposal_id": proposal_id}
    answer = Client(headers={"host": "127.0.0.1"}).post(
        "/api/v1/callback/calls",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Run {token}"},
    )
    if answer.status_code != 200:
        sys.exit(f"The call answered {answer.status_code}: {answer.content[:200]!r}")


for line in sys.stdin:
    match json.loads(line)["what"]:
        case "open":
            print(json.dumps({"token": open_run()}), flush=True)
        case "count":
            print(json.dumps({"statements": statements()}), flush=True)
