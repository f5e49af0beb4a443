"""The partner of the boundary's benchmark: opens a run, and counts the statements of one call."""

from __future__ import annotations

import json
import sys

import django

django.setup()

from django.db import connection  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.boundary.api.plain import PlainProposal, answer_plainly  # noqa: E402
from apps.boundary.external import open_external_run  # noqa: E402
from apps.runs.models import Seat  # noqa: E402


def open_runs(many: int) -> list[str]:
    """Open runs of another runtime in the demonstration's room and return their tokens."""
    seat = Seat.objects.select_related("agent").earliest("created_at")
    member = User.objects.get(username="mara")
    return [
        open_external_run(room_id=seat.room_id, member=member, agent_slug=seat.agent.slug).token
        for _ in range(many)
    ]


def statements() -> int:
    """Make two calls as the web server does and count the statements of the second."""
    [token] = open_runs(1)
    _call(token, "warm")
    with CaptureQueriesContext(connection) as captured:
        _call(token, "counted")
    return len(captured.captured_queries)


def _call(token: str, proposal_id: str) -> None:
    answer = answer_plainly(f"Run {token}", PlainProposal("list_available_agents", {}, proposal_id))
    if answer.status != 200:
        sys.exit(f"The call answered {answer.status}: {answer.body[:200]!r}")


for line in sys.stdin:
    asked = json.loads(line)
    match asked["what"]:
        case "open":
            print(json.dumps({"tokens": open_runs(asked["many"])}), flush=True)
        case "count":
            print(json.dumps({"statements": statements()}), flush=True)
