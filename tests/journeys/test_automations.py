"""An automation goes its whole way with real processes: asked by a webhook, and started by beat."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from apps.web.demo.client import Administrator, Member, wait_until
from tests.stack import RunningStack

pytestmark = pytest.mark.workers


class Standing:
    """A member with an agent in a room, and automations of theirs."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.suffix = secrets.token_hex(3)
        passwords = {one["username"]: one["password"] for one in stack.sign_ins}
        self.mara = Member(stack.url, "mara", passwords["mara"])
        self.ines = Administrator(stack.url, "ines", passwords["ines"])
        slug = f"night-{self.suffix}"
        ceiling = ["artifacts.read", "artifacts.write"]
        self.mara.post("agents", {"slug": slug, "name": "Night", "ceiling": ceiling})
        self.room = self.mara.post("rooms", {"name": f"Night shift {self.suffix}"})["id"]
        self.mara.post(f"rooms/{self.room}/seats", {"agent": slug})
        self.agent = slug

    def grant(self, trigger: str, title: str, **more: str) -> dict[str, Any]:
        wish = {"title": title, "kind": "markdown", "body": "# Done"}
        ends = datetime.now(UTC) + timedelta(days=1)
        made: dict[str, Any] = self.mara.post(
            "automations",
            {
                "name": f"{trigger} {self.suffix}",
                "agent": self.agent,
                "room": self.room,
                "trigger": trigger,
                "words": f"/call create_artifact {json.dumps(wish)}",
                "expires_at": ends.isoformat(),
                **more,
            },
        )
        return made

    def ended(self, automation: str) -> dict[str, Any]:
        def look() -> Any:
            runs = self.mara.get("runs", room=self.room)["results"]
            own = [run for run in runs if run["automation"] == automation]
            return own[0] if own and own[0]["state"] == "finished" else None

        found: dict[str, Any] = wait_until("The run of an automation", look)
        return found

    def titles(self) -> list[str]:
        found = self.mara.get("artifacts", room=self.room)["results"]
        return [one["title"] for one in found]

    def trail(self, automation: str) -> list[str]:
        rows = self.ines.audit_rows(subject=f"automation:{automation}")
        return [row["action"] for row in rows]


@pytest.fixture
def standing(running_stack: RunningStack) -> Standing:
    return Standing(running_stack)


def test_a_webhook_is_answered_carried_out_and_refused_once_it_is_revoked(
    standing: Standing,
) -> None:
    made = standing.grant("webhook", "Asked from outside")
    automation = made["automation"]["id"]
    address = f"{standing.stack.url}/api/v1/automations/{automation}"
    token = {"Authorization": f"Bearer {made['token']}", "Idempotency-Key": "delivery-1"}
    first, again = (httpx.post(f"{address}/start", json={"n": 1}, headers=token) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    run = standing.ended(automation)
    assert (run["trigger"], run["outcome"]) == ("webhook", "completed")
    assert standing.titles() == ["Asked from outside"]
    standing.mara.post(f"automations/{automation}/revoke")
    del token["Idempotency-Key"]
    refused = httpx.post(f"{address}/start", json={"n": 2}, headers=token)
    assert (refused.status_code, refused.json()["rule"]) == (409, "automation_is_active")
    assert sorted(standing.trail(automation)) == [
        "automation.created",
        "automation.refused",
        "automation.revoked",
        "automation.started",
    ]


def test_beat_starts_what_is_due_once_and_sets_the_next_time(standing: Standing) -> None:
    made = standing.grant("schedule", "Asked by the clock", schedule="0 6 * * *")
    automation = made["automation"]["id"]
    with psycopg.connect(standing.stack.environment["DATABASE_URL"]) as database:
        # A schedule comes every five minutes at most, so the clock is helped.
        database.execute(
            "UPDATE automations_automation SET next_due_at = now() - interval '1 minute'"
            " WHERE id = %s",
            [automation],
        )
    run = standing.ended(automation)
    assert (run["trigger"], run["outcome"]) == ("schedule", "completed")
    assert standing.titles() == ["Asked by the clock"]
    shown = standing.mara.get(f"automations/{automation}")
    assert (shown["last_result"], shown["last_run"]) == ("started", run["id"])
    assert datetime.fromisoformat(shown["next_due_at"]) > datetime.now(UTC)
