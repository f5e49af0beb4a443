"""Work under Kaizen's boundary from a program of your own, with the standard library alone.

    KAIZEN_PASSWORD=… python3 examples/plain_http.py --username mara

signs in, opens a run for an agent in a room, looks at the run's frozen catalog, makes two calls and
finishes. `--call TOOL --arguments JSON` makes one more; where the policy asks, the program waits
until somebody says yes or no on the member's page of approvals.

`Kaizen` and `Run` are all that a runtime needs. Every request may be sent again without harm: a run
is opened under an idempotency key, and a proposal id always stands for the same call.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_WAIT = 25
TRIES = 5


class Refused(Exception):
    """Kaizen said no: a status, a stable code and a sentence."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{problem.get('code', status)}: {problem.get('detail', '')}")
        self.status = status
        self.code = str(problem.get("code", ""))


class Kaizen:
    """A Kaizen at an address, as one member."""

    def __init__(self, url: str, *, authorization: str = "") -> None:
        self.url = url.rstrip("/")
        self._authorization = authorization

    def ask(self, method: str, path: str, body: Any = None, *, key: str = "") -> Any:
        """Send a request, again where no answer came, and return the answer."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._authorization:
            headers["Authorization"] = self._authorization
        if key:
            headers["Idempotency-Key"] = key
        url = f"{self.url}/api/v1/{path}"
        for attempt in range(TRIES):
            request = urllib.request.Request(
                url,
                data=None if body is None else json.dumps(body).encode(),
                headers={**headers, **self.proof(method, url)},
                method=method,
            )
            try:
                with urllib.request.urlopen(request, timeout=LONGEST_WAIT + 10) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as refusal:
                problem = json.loads(refusal.read() or b"{}")
                if refusal.code not in (429, 503) or attempt == TRIES - 1:
                    raise Refused(refusal.code, problem) from None
                time.sleep(min(10, float(problem.get("retry_after", 1))))
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if attempt == TRIES - 1:
                    raise
                time.sleep(2**attempt / 4)
        raise AssertionError("unreachable")

    def proof(self, method: str, url: str) -> dict[str, str]:
        """Return the headers that prove something for one request: here none."""
        return {}

    def of_run(self, token: str) -> Kaizen:
        """Return the same Kaizen as whoever holds a run's token."""
        return Kaizen(self.url, authorization=f"Run {token}")

    def sign_in(self, username: str, password: str) -> None:
        """Become this member."""
        token = self.ask("POST", "auth/token", {"username": username, "password": password})
        self._authorization = f"Bearer {token['token']}"

    def room(self, name: str) -> str:
        """Return the id of the member's room of this name."""
        page = "rooms"
        while page:
            answer = self.ask("GET", page)
            for room in answer["results"]:
                if room["name"] == name and not room.get("closed_at"):
                    return str(room["id"])
            page = (answer.get("next") or "").partition("/api/v1/")[2]
        raise LookupError(f"You have no open room named {name!r}.")

    def open_run(self, room: str, agent: str) -> Run:
        """Open a run for an agent that has a seat in the room."""
        opened = self.ask("POST", f"rooms/{room}/runs", {"agent": agent}, key=str(uuid.uuid4()))
        # A token is shown once. When the answer that carried it was lost, a new one replaces it.
        token = opened["token"] or self.ask("POST", f"runs/{opened['run']}/token", {})["token"]
        return Run(str(opened["run"]), self.of_run(token))


class Run:
    """One run: its frozen catalog, its calls, its end."""

    def __init__(self, ident: str, kaizen: Kaizen) -> None:
        self.id = ident
        self._kaizen = kaizen

    def catalog(self) -> dict[str, Any]:
        """Return the tools that this run may propose, as they were when it began."""
        tools: dict[str, Any] = self._kaizen.ask("GET", "callback/run")["tools"]
        return tools

    def call(
        self,
        name: str,
        arguments: Any,
        *,
        proposal_id: str = "",
        waiting: Callable[[Mapping[str, Any]], None] = lambda call: None,
    ) -> dict[str, Any]:
        """Propose a call and return it once it has settled; `waiting` hears of each wait."""
        call: dict[str, Any] = self._kaizen.ask(
            "POST",
            "callback/calls",
            {"name": name, "arguments": arguments, "proposal_id": proposal_id or str(uuid.uuid4())},
        )
        while call["state"] != "settled":
            waiting(call)
            call = self._kaizen.ask("GET", f"callback/calls/{call['call']}?wait={LONGEST_WAIT}")
        return call

    def finish(self, text: str, *, failed: bool = False) -> None:
        """Say the last word, which the room sees; the token ends with the run."""
        outcome = "failed" if failed else "completed"
        try:
            self._kaizen.ask("POST", "callback/finish", {"text": text, "outcome": outcome})
        except Refused as refusal:
            # An earlier try of this very request ended the run, and its token with it.
            if refusal.code != "bad_run_token":
                raise


def main(arguments: list[str], kind: Callable[[str], Kaizen] = Kaizen) -> int:
    """Tell a short story."""
    parser = argparse.ArgumentParser(
        description="Work under Kaizen's boundary from a program of your own."
    )
    parser.add_argument("--url", default=os.environ.get("KAIZEN_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--username", required=True)
    parser.add_argument("--room", default="First light")
    parser.add_argument("--agent", default="scribe")
    parser.add_argument("--call", metavar="TOOL", help="one more call to make")
    parser.add_argument("--arguments", type=json.loads, default={}, metavar="JSON")
    options = parser.parse_args(arguments)
    kaizen = kind(options.url)
    password = os.environ.get("KAIZEN_PASSWORD") or getpass.getpass(f"{options.username}: ")
    try:
        kaizen.sign_in(options.username, password)
        run = kaizen.open_run(kaizen.room(options.room), options.agent)
        return tell(run, options)
    except (Refused, LookupError) as problem:
        print(problem, file=sys.stderr)
        return 1


def tell(run: Run, options: argparse.Namespace) -> int:
    """Make the calls of the story and finish."""
    print(f"run {run.id} may propose: {', '.join(sorted(run.catalog()))}")
    note = {"title": "From a plain client", "kind": "markdown", "body": "# Hello\n\nOver HTTP."}
    story = [("list_available_agents", {}), ("create_artifact", note)]
    if options.call:
        story.append((options.call, options.arguments))
    done = []
    for number, (name, content) in enumerate(story):
        call = run.call(name, content, proposal_id=f"story-{number}", waiting=say_wait)
        print(f"{name}: {call['outcome']} {json.dumps(call['projection'])[:300]}")
        done.append(f"{name} ended as {call['outcome']}")
    run.finish(f"{'; '.join(done)}.")
    print("finished")
    return 0


def say_wait(call: Mapping[str, Any]) -> None:
    """Tell whoever watches why nothing happens."""
    who = {
        "person": "somebody's yes",
        "system": "another system",
        "agent": "another agent",
    }.get(call["waits_for"], "a worker")
    print(f"{call['tool']}: waits for {who}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
