"""What people and other runtimes do while everything around them dies.

A lane is a room of its own with one member, who asks for one thing after the other and says yes to
what is asked. Every request that may have been lost is sent again, as a good client does: with the
same key, so that it counts once.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.effects import READ, WRITE
from benchmarks.harness import BenchmarkFailed

PATIENCE = 120.0
PAUSE = 0.15


@dataclass
class Story:
    """One request and what became of it, as its client was told."""

    mark: str
    lane: str
    external: bool
    run: str = ""
    accepted: bool = False
    ended: bool = False
    outcomes: dict[str, str] = field(default_factory=dict)
    problem: str = ""


class Client:
    """A program with one token that does not give up on a server which comes back."""

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._client = httpx.Client(timeout=30, verify=False)  # noqa: S501 - loopback, plain HTTP

    def ask(
        self, method: str, path: str, token: str, body: Any = None, key: str = ""
    ) -> tuple[int, Any]:
        """Send a request until somebody answers it."""
        headers = {"Authorization": token}
        if key:
            headers["Idempotency-Key"] = key
        until = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self._client.request(
                    method, f"{self._url()}/api/v1/{path}", json=body, headers=headers
                )
                if answer.status_code < 500 and answer.status_code != 429:
                    in_progress = answer.status_code == 409 and b"in_progress" in answer.content
                    if not in_progress:
                        return answer.status_code, answer.json() if answer.content else None
                said = f"{answer.status_code} {answer.text[:200]}"
            except httpx.HTTPError as gone:
                said = type(gone).__name__
            if time.monotonic() > until:
                raise BenchmarkFailed(f"{method} {path} was never answered: {said}")
            time.sleep(PAUSE)


class Lane(threading.Thread):
    """A room in which one story follows the other until it is told to stop."""

    def __init__(
        self, *, url: Callable[[], str], token: str, room: str, agent: str, external: bool
    ) -> None:
        super().__init__(daemon=True)
        self._client = Client(url)
        self._member = f"Bearer {token}"
        self._room = room
        self._agent = agent
        self._external = external
        self._going = threading.Event()
        self._going.set()
        self._over = threading.Event()
        self.stories: list[Story] = []
        self.failure = ""

    def run(self) -> None:
        """Tell stories."""
        while not self._over.is_set():
            if not self._going.wait(0.2):
                continue
            mark = f"{self.name}-{len(self.stories)}-{uuid.uuid4().hex[:8]}"
            story = Story(mark=mark, lane=self.name, external=self._external)
            self.stories.append(story)
            try:
                (self._from_outside if self._external else self._in_the_room)(story)
            except BenchmarkFailed as failure:
                story.problem = str(failure)
            story.ended = True

    def pause(self) -> None:
        """Begin nothing new."""
        self._going.clear()

    def go_on(self) -> None:
        """Begin again."""
        self._going.set()

    def leave(self) -> None:
        """End after the present story."""
        self._over.set()
        self._going.set()

    @property
    def quiet(self) -> bool:
        """Whether nothing that was begun is still open."""
        return all(story.ended for story in self.stories)

    # --- our own engine

    def _in_the_room(self, story: Story) -> None:
        lines = [f"/call {name} {json.dumps(arguments)}" for name, arguments in _calls(story.mark)]
        status, posted = self._client.ask(
            "POST",
            f"rooms/{self._room}/messages",
            self._member,
            {"text": "\n".join(lines)},
            key=story.mark,
        )
        if status != 202:
            raise BenchmarkFailed(f"a message was answered with {status}")
        story.accepted, story.run = True, posted["run"] or ""
        self._until_finished(story)

    def _until_finished(self, story: Story) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self._say_yes()
            status, run = self._client.ask("GET", f"runs/{story.run}", self._member)
            if status == 200 and run["state"] == "finished":
                return
            time.sleep(PAUSE)

    def _say_yes(self) -> None:
        """Approve whatever waits for this member; a yes that was lost is given again."""
        _, page = self._client.ask("GET", "approvals?state=pending", self._member)
        for waiting in page["results"]:
            _, shown = self._client.ask("GET", f"approvals/{waiting['id']}", self._member)
            if shown.get("state") == "pending":
                digest = {"arguments_digest": shown["arguments_digest"]}
                self._client.ask("POST", f"approvals/{waiting['id']}/approve", self._member, digest)

    # --- another runtime

    def _from_outside(self, story: Story) -> None:
        status, run = self._client.ask(
            "POST",
            f"rooms/{self._room}/runs",
            self._member,
            {"agent": self._agent},
            key=story.mark,
        )
        if status != 201:
            raise BenchmarkFailed(f"opening a run was answered with {status}")
        story.accepted, story.run = True, run["run"]
        # Where the first answer got lost, so did its token; another one takes its place.
        text = run["token"] or self._new_token(story)
        token = f"Run {text}"
        for number, (name, arguments) in enumerate(_calls(story.mark)):
            body = {"name": name, "arguments": arguments, "proposal_id": f"{number}"}
            status, call = self._client.ask("POST", "callback/calls", token, body)
            if status not in (200, 202):
                raise BenchmarkFailed(f"a proposal was answered with {status} {call}")
            call = self._until_settled(call, token)
            story.outcomes[call["call"]] = call["outcome"]
        status, said = self._client.ask("POST", "callback/finish", token, {"text": "Done."})
        # A second finish meets a token that the first one ended.
        if status not in (200, 401):
            raise BenchmarkFailed(f"finish was answered with {status} {said}")

    def _new_token(self, story: Story) -> str:
        status, renewed = self._client.ask("POST", f"runs/{story.run}/token", self._member, {})
        if status != 201:
            raise BenchmarkFailed(f"a new token was answered with {status}")
        return str(renewed["token"])

    def _until_settled(self, call: dict[str, Any], token: str) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while call["state"] != "settled":
            if time.monotonic() > until:
                raise BenchmarkFailed(f"call {call['call']} never settled")
            if call["waits_for_approval"]:
                self._say_yes()
            _, call = self._client.ask("GET", f"callback/calls/{call['call']}?wait=2", token)
        return call


def _calls(mark: str) -> list[tuple[str, dict[str, Any]]]:
    """One write of ours, one read outside, and one write outside that asks."""
    note = {"title": mark, "kind": "markdown", "body": f"# {mark}"}
    return [("create_artifact", note), (READ, {"mark": mark}), (WRITE, {"mark": mark})]
