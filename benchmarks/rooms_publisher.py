"""The process that makes things happen in the benchmark's room: as a worker would, not the web."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import django

django.setup()

from django.db import transaction  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.rooms import relay  # noqa: E402
from apps.rooms.models import Room  # noqa: E402
from apps.rooms.services import append_event, create_room, invite  # noqa: E402
from apps.rooms.streams import StreamWriter  # noqa: E402
from apps.rooms.tickets import issue_ticket  # noqa: E402
from benchmarks.rooms_bare import CHANNEL  # noqa: E402

FILLER = "The quick brown fox jumps over the lazy dog, and so on. " * 4


class Publisher:
    """One room with its members, and everything that is said in it."""

    def prepare(self, viewers: int) -> dict[str, Any]:
        """Make a room in which so many members take part."""
        names = [f"viewer-{uuid.uuid4().hex[:12]}" for _ in range(viewers)]
        self._members = [User.objects.create_user(name) for name in names]
        room = create_room(creator=self._members[0], name="Benchmark")
        for name in names[1:]:
            invite(room_id=room.pk, inviter=self._members[0], username=name)
        self._room = Room.objects.get(pk=room.pk)
        return {"room": str(room.pk)}

    def tickets(self) -> dict[str, Any]:
        """Issue one ticket for each member."""
        return {"tickets": [issue_ticket(member, self._room.pk) for member in self._members]}

    def events(self, count: int, rate: float) -> dict[str, Any]:
        """Commit events at a steady rate; say when each was committed."""
        positions: list[int] = []
        moments: list[float] = []
        for _ in _paced(count, rate):
            with transaction.atomic():
                # Registered first, so it runs after the commit and before the bell.
                transaction.on_commit(lambda: moments.append(time.monotonic()))
                positions.append(self._say())
        return {"sent": dict(zip(positions, moments, strict=True))}

    def burst(self, commits: int, each: int) -> dict[str, Any]:
        """Commit as fast as the database takes it, several events at a time."""
        positions = []
        for _ in range(commits):
            with transaction.atomic():
                positions += [self._say() for _ in range(each)]
        return {"positions": positions}

    def _say(self) -> int:
        return append_event(
            room_id=self._room.pk,
            kind="message.posted",
            actor=self._members[0],
            data={"text": FILLER},
        )

    def stream(self, count: int, rate: float) -> dict[str, Any]:
        """Let a text grow at a steady rate; say when it reached which length."""
        name = f"stream-{uuid.uuid4().hex}"
        writer = StreamWriter(
            room_id=self._room.pk,
            stream=name,
            of="artifact",
            run=uuid.uuid4(),
            agent={"slug": "scribe", "name": "Scribe"},
            member={"id": self._members[0].pk, "username": "viewer", "name": "Viewer"},
            revision=self._room.roster_revision,
        )
        fed: dict[int, float] = {}
        length = 0
        with writer:
            writer.open({"kind": "markdown"})
            time.sleep(0.2)
            for _ in _paced(count, rate):
                length += len(FILLER)
                fed[length] = time.monotonic()
                writer.feed(FILLER)
            time.sleep(0.2)
            writer.close("saved", artifact=uuid.uuid4(), version=1)
        return {"stream": name, "sent": fed}

    def bare(self, count: int, rate: float) -> dict[str, Any]:
        """Publish messages of the same size to the bare relay."""
        sent: dict[int, float] = {}
        for number in _paced(count, rate):
            message = relay.encode({"type": "event", "position": number, "text": FILLER})
            sent[number] = time.monotonic()
            relay.client().publish(CHANNEL, message)
        return {"sent": sent}


def _paced(count: int, rate: float) -> Any:
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield number


def main() -> None:
    """Answer each line of the benchmark with another."""
    publisher = Publisher()
    for line in sys.stdin:
        request = json.loads(line)
        verb: Callable[..., dict[str, Any]] = getattr(publisher, request.pop("what"))
        print(json.dumps(verb(**request)), flush=True)


if __name__ == "__main__":
    main()
