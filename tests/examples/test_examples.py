"""The examples for other runtimes, as somebody would run them, against all real processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kaizen.supervisor.state import CLONE
from tests.stack import RunningStack
from tests.turns.fake_model import FakeModel, fake_model

pytestmark = pytest.mark.workers

EXAMPLES = CLONE / "examples"
NOTE = {"title": "From the SDK", "kind": "markdown", "body": "# Hello from an agent"}


class Member:
    """Mara, at her API, in a room of her own where everything that writes asks."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.password = next(s["password"] for s in stack.sign_ins if s["username"] == "mara")
        self._api = httpx.Client(base_url=f"{stack.url}/api/v1/", timeout=30)
        sign_in = {"username": "mara", "password": self.password}
        self._api.headers["Authorization"] = (
            f"Bearer {self.ask('POST', 'auth/token', json=sign_in)['token']}"
        )
        self.room = f"Examples {time.time_ns()}"
        self.room_id = self.ask("POST", "rooms", json={"name": self.room})["id"]
        self.ask("POST", f"rooms/{self.room_id}/seats", json={"agent": "scribe"})

    def ask(self, method: str, path: str, **content: Any) -> Any:
        answer = self._api.request(method, path, **content)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def wants_to_be_asked(self) -> None:
        place = {"room": self.room_id, "agent": "scribe"}
        self.ask("PUT", "approvals/modes", json={"mode": "always", **place})

    @contextmanager
    def answering(self, answer: str) -> Iterator[None]:
        """Say yes or no to every question of this room, from another thread."""
        over = threading.Event()

        def wait_and_say() -> None:
            while not over.wait(0.1):
                for waiting in self.ask("GET", "approvals?state=pending")["results"]:
                    if waiting["room"] == self.room_id:
                        shown = self.ask("GET", f"approvals/{waiting['id']}")
                        body = {"arguments_digest": shown["arguments_digest"]}
                        path = f"approvals/{waiting['id']}/{answer}"
                        self.ask("POST", path, json=body if answer == "approve" else {})

        thread = threading.Thread(target=wait_and_say)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def artifacts(self) -> list[str]:
        page = self.ask("GET", f"artifacts?room={self.room_id}")
        return [artifact["title"] for artifact in page["results"]]

    def said(self) -> list[str]:
        events = self.ask("GET", f"rooms/{self.room_id}/events")["results"]
        return [e["data"]["text"] for e in events if e["kind"] == "message.posted"]

    def run(self) -> dict[str, Any]:
        (run,) = self.ask("GET", f"runs?room={self.room_id}")["results"]
        found: dict[str, Any] = run
        return found


@pytest.fixture
def mara(running_stack: RunningStack) -> Member:
    return Member(running_stack)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with fake_model() as model:
        yield model


def example(
    name: str, mara: Member, *arguments: str, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run an example to its end."""
    return subprocess.run(
        [python, str(EXAMPLES / name), "--username", "mara", "--room", mara.room, *arguments],
        env={
            "PATH": os.environ["PATH"],
            "KAIZEN_URL": mara.stack.url,
            "KAIZEN_PASSWORD": mara.password,
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("program", ["plain_http.py", "bound_http.py"])
def test_a_plain_client_opens_a_run_calls_and_finishes(mara: Member, program: str) -> None:
    done = example(program, mara)
    assert done.returncode == 0, done.stderr
    assert "create_artifact: ok" in done.stdout
    assert mara.artifacts() == ["From a plain client"]
    assert mara.said() == ["list_available_agents ended as ok; create_artifact ended as ok."]
    assert (mara.run()["state"], mara.run()["outcome"]) == ("finished", "completed")


@pytest.mark.parametrize(("answer", "outcome"), [("approve", "ok"), ("deny", "denied")])
def test_a_plain_client_waits_for_a_person(mara: Member, answer: str, outcome: str) -> None:
    mara.wants_to_be_asked()
    with mara.answering(answer):
        done = example("plain_http.py", mara)
    assert done.returncode == 0, done.stderr
    assert "create_artifact: waits for somebody's yes" in done.stdout
    assert f"create_artifact: {outcome}" in done.stdout
    assert bool(mara.artifacts()) == (outcome == "ok")


def test_a_plain_client_says_what_was_refused(mara: Member) -> None:
    done = example("plain_http.py", mara, "--call", "no_such_tool", "--arguments", "{}")
    assert done.returncode == 0
    assert "no_such_tool: refused" in done.stdout
    unknown = example("plain_http.py", mara, "--agent", "nobody")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "not_found" in unknown.stderr


def sdk_python() -> str:
    """Return the Python that has the SDK: ours, or one that was prepared for the examples."""
    if prepared := os.environ.get("KAIZEN_EXAMPLES_PYTHON"):
        return prepared
    if importlib.util.find_spec("agents") is not None:
        return sys.executable
    pytest.skip(
        "The OpenAI Agents SDK is not installed here: put examples/requirements.txt into an"
        " environment of its own and name its Python in KAIZEN_EXAMPLES_PYTHON."
    )


def test_an_agent_of_the_sdk_works_under_the_boundary(mara: Member, model: FakeModel) -> None:
    python = sdk_python()
    mara.wants_to_be_asked()
    model.calls(("create_artifact", NOTE), ("list_available_agents", {}))
    model.says("I wrote it down.")
    with mara.answering("approve"):
        done = example(
            "openai_agents.py", mara, "--model", "fake", "Write it down.",
            python=python, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "create_artifact: waits for somebody's yes" in done.stdout
    assert mara.artifacts() == ["From the SDK"]
    assert mara.said() == ["I wrote it down."]
    offered = {tool["function"]["name"] for tool in model.asked[0]["tools"]}
    assert {"create_artifact", "list_available_agents"} <= offered
    results = [m["content"] for m in model.asked[1]["messages"] if m["role"] == "tool"]
    assert len(results) == 2
    assert all('"outcome": "ok"' in result for result in results)


def test_an_agent_that_fails_ends_its_run_as_failed(mara: Member, model: FakeModel) -> None:
    python = sdk_python()
    for _ in range(25):
        model.calls(("list_available_agents", {}))
    done = example(
        "openai_agents.py", mara, "--model", "fake", "Go round in circles.",
        python=python, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none",
    )  # fmt: skip
    assert done.returncode == 1
    assert mara.run()["outcome"] == "failed"


def test_the_requirements_of_the_examples_are_pinned() -> None:
    lines = Path(EXAMPLES / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert wanted
    assert all("==" in line for line in wanted)
