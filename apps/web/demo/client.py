"""How does a person reach Kaizen from a program? HTTP with a token, and a room's socket."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

PATIENCE = 60.0
"""Seconds to wait for anything that workers do."""


class NotAsItShould(Exception):
    """A step did not see what it should have seen."""


class Member:
    """One signed-in person with a token."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self.username = username
        self._http = httpx.Client(base_url=url + "/api/v1/", timeout=30.0)
        signed_in = self.post("auth/token", {"username": username, "password": password})
        self._http.headers["Authorization"] = f"Bearer {signed_in['token']}"

    def get(self, path: str, **params: Any) -> Any:
        """Read one resource."""
        return self._answer(self._http.get(path, params=params), 200)

    def take(self, address: str, **params: Any) -> bytes:
        """Read the bytes of one file."""
        answer = self._http.get(address, params=params)
        if answer.status_code != 200:
            raise NotAsItShould(f"{self.username}: GET {address} answered {answer.status_code}.")
        return answer.content

    def post(self, path: str, body: dict[str, Any] | None = None, *, expect: int = 0) -> Any:
        """Make or do one thing; any 2xx is right unless a status is expected."""
        answer = self._http.post(
            path, json=body or {}, headers={"Idempotency-Key": uuid.uuid4().hex}
        )
        return self._answer(answer, expect)

    def sign_out(self) -> None:
        """Revoke the token."""
        self._http.delete("auth/token")
        self._http.close()

    def _answer(self, answer: httpx.Response, expect: int) -> Any:
        fine = answer.status_code == expect if expect else answer.is_success
        if not fine:
            raise NotAsItShould(
                f"{self.username}: {answer.request.method} {answer.request.url.path}"
                f" answered {answer.status_code}: {answer.text[:300]}"
            )
        return answer.json() if answer.content else None


class Administrator:
    """A person at the admin pages, with a session like a browser's."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self._url = url
        self._http = httpx.Client(base_url=url, timeout=30.0, follow_redirects=True)
        self._http.get("/admin/login/")
        answer = self._http.post(
            "/admin/login/",
            data={
                "username": username,
                "password": password,
                "csrfmiddlewaretoken": self._http.cookies.get("csrftoken", ""),
                "next": "/admin/",
            },
            headers={"Referer": url + "/admin/login/"},
        )
        if answer.status_code != 200 or "/admin/login/" in str(answer.url):
            raise NotAsItShould(f"{username} could not sign in to the admin.")

    def page(self, path: str) -> str:
        """Read one admin page."""
        answer = self._http.get(path)
        if answer.status_code != 200:
            raise NotAsItShould(f"GET {path} answered {answer.status_code}.")
        return answer.text

    def audit_rows(self, **filters: str) -> list[dict[str, Any]]:
        """Export the audit rows that these filters keep."""
        answer = self._http.get("/admin/audit/auditrow/export/jsonl/", params=filters)
        if answer.status_code != 200:
            raise NotAsItShould(f"The audit export answered {answer.status_code}.")
        return [json.loads(line) for line in answer.text.splitlines()]

    def submit(self, path: str) -> str:
        """Press the button of the page's form that goes to this path; return what follows."""
        form = next((f for f in _forms(self.page(path)) if f.action == path), None)
        if form is None:
            raise NotAsItShould(f"The page at {path} offers no way to do it.")
        answer = self._http.post(path, data=form.fields, headers={"Referer": self._url + path})
        if answer.status_code != 200:
            raise NotAsItShould(f"POST {path} answered {answer.status_code}.")
        return answer.text


class Viewer:
    """One member's eyes on a room: everything that its socket sends, in order."""

    def __init__(self, url: str, member: Member, room: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self.ended = ""
        self._changed = threading.Condition()
        self._closed = threading.Event()
        parts = urlsplit(url)
        ticket = member.post(f"rooms/{room}/ticket")["ticket"]
        self._socket = connect(
            f"ws://{parts.netloc}/ws/rooms/{room}/?ticket={ticket}", open_timeout=10
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.wait_for("the snapshot", lambda seen: seen["type"] == "hello")

    def wait_for(self, what: str, matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first message seen so far or to come that matches."""
        until = time.monotonic() + PATIENCE
        looked_at = 0
        with self._changed:
            while True:
                for message in self.seen[looked_at:]:
                    looked_at += 1
                    if matches(message):
                        return message
                left = until - time.monotonic()
                if left <= 0 or (self._closed.is_set() and looked_at == len(self.seen)):
                    raise NotAsItShould(f"The room never showed {what}. {self.ended}".strip())
                self._changed.wait(min(left, 1.0))

    def event(self, kind: str, **data: Any) -> dict[str, Any]:
        """Wait for a durable event with these data."""
        found = self.wait_for(
            kind,
            lambda seen: (
                seen["type"] == "event"
                and seen["kind"] == kind
                and all(seen["data"].get(name) == value for name, value in data.items())
            ),
        )
        facts: dict[str, Any] = found["data"]
        return facts

    def count(self, kind: str, **fields: Any) -> int:
        """Count the messages of a type seen so far."""
        with self._changed:
            return sum(
                seen["type"] == kind and all(seen.get(k) == v for k, v in fields.items())
                for seen in self.seen
            )

    def close(self) -> None:
        """Leave."""
        self._socket.close()
        self._thread.join(5)

    def _read(self) -> None:
        try:
            for text in self._socket:
                with self._changed:
                    self.seen.append(json.loads(text))
                    self._changed.notify_all()
        except WebSocketException as ended:
            self.ended = type(ended).__name__
        finally:
            self._closed.set()
            with self._changed:
                self._changed.notify_all()


def wait_until(what: str, look: Callable[[], Any]) -> Any:
    """Look again until something is there."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise NotAsItShould(f"{what} did not happen within {PATIENCE:.0f} s.")


@dataclass(slots=True)
class _Form:
    """Where a form goes, and the fields that it sends along by itself."""

    action: str
    fields: dict[str, str]


class _FormReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(_Form(given.get("action", ""), {}))
            self._open = True
        elif tag == "input" and self._open and given.get("type") == "hidden":
            self.forms[-1].fields[given.get("name", "")] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = False


def _forms(page: str) -> list[_Form]:
    reader = _FormReader()
    reader.feed(page)
    return reader.forms
