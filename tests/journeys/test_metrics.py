"""One page tells what every process did, and what one did that has died."""

from __future__ import annotations

import secrets

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from apps.web.demo.client import Administrator, Member, wait_until
from tests.stack import RunningStack

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def passwords(running_stack: RunningStack) -> dict[str, str]:
    return {one["username"]: one["password"] for one in running_stack.sign_ins}


class Numbers:
    """What an administrator reads at the one address."""

    def __init__(self, stack: RunningStack, password: str) -> None:
        self._operator = Administrator(stack.url, "ines", password)

    def of(self, name: str, **labels: str) -> float:
        page = self._operator.page("/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def ask(member: Member, room: str, text: str) -> None:
    """Say something to the room's agent and wait until it has ended."""

    def ended() -> int:
        runs = member.get("runs", room=room)["results"]
        return sum(run["state"] == "finished" for run in runs)

    before = ended()
    member.post(f"rooms/{room}/messages", {"text": text})
    wait_until("The run", lambda: ended() > before)


def test_calls_in_workers_and_in_the_web_are_told_at_one_address(
    running_stack: RunningStack, passwords: dict[str, str]
) -> None:
    numbers = Numbers(running_stack, passwords["ines"])
    mara = Member(running_stack.url, "mara", passwords["mara"])
    slug = f"counted-{secrets.token_hex(3)}"
    mara.post("agents", {"slug": slug, "name": "Counted", "ceiling": ["agents.read"]})
    room = mara.post("rooms", {"name": f"Counting {slug}"})["id"]
    mara.post(f"rooms/{room}/seats", {"agent": slug})
    told = {"tool": "list_available_agents", "capability": "agents.read", "outcome": "ok"}

    def calls() -> float:
        return numbers.of("kaizen_calls_total", **told)

    def grown_to(count: float) -> None:
        wait_until("The count", lambda: True if calls() >= count else None)
        assert calls() == count

    before = calls()
    # A worker's call, of a turn.
    ask(mara, room, "/call list_available_agents {}")
    grown_to(before + 1)
    # The web's own, for another runtime.
    opened = mara.post(f"rooms/{room}/runs", {"agent": slug})
    assert opened["token"]
    answer = httpx.post(
        f"{running_stack.url}/api/v1/callback/calls",
        json={"name": "list_available_agents", "arguments": {}, "proposal_id": "one"},
        headers={"Authorization": f"Run {opened['token']}"},
    )
    assert answer.status_code == 200, answer.text
    grown_to(before + 2)
    # What a worker had laid down stays when it is killed, and the next one counts on.
    old = running_stack.kill("worker-turns")
    running_stack.wait_for_new("worker-turns", old)
    ask(mara, room, "/call list_available_agents {}")
    grown_to(before + 3)
    assert numbers.of("kaizen_metrics_complete") == 1
    assert numbers.of("kaizen_part_ready", part="database") == 1
    assert numbers.of("kaizen_rooms_open") >= 1
