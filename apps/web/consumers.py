"""How does one room socket live? It checks, joins the hub, greets, and forwards. It writes nothing.

This is a plain ASGI application inside Channels' routing: Channels' consumer classes hop to a
shared thread around every message, which a socket that only forwards does not need.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import structlog
from django import db

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.core.errors import NotFound, Unavailable
from apps.rooms.hub import Hub, the_hub
from apps.rooms.models import Room
from apps.rooms.reads import read
from apps.rooms.relay import encode
from apps.rooms.tickets import redeem_ticket
from apps.rooms.viewers import (
    BAD_MESSAGE,
    NOT_HERE,
    NOT_SIGNED_IN,
    RESTARTING,
    RESUME,
    TOO_MANY,
    CannotWatch,
    Ending,
    Viewer,
)
from apps.rooms.watched import Watched
from apps.web.origins import ticket_in
from apps.web.snapshot import Greeting, greet, with_live_part

log = structlog.get_logger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MESSAGE_BYTES = 4096
LIFE_SECONDS = 1800.0
"""After about this long a socket is asked to come back, which checks the sign-in again."""
_GREETING_SECONDS = 30.0
_CLOSING_SECONDS = 5.0
_BURST = 40
_PER_SECOND = 4.0
_STREAM = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")


class RoomConsumer:
    """One open socket of one member in one room."""

    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._room_id: uuid.UUID = scope["url_route"]["kwargs"]["room_id"]

    @classmethod
    def as_asgi(cls) -> Callable[[dict[str, Any], Receive, Send], Awaitable[None]]:
        """Return the application that serves each socket with a consumer of its own."""

        async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
            await cls(scope, receive, send).serve()

        return application

    async def serve(self) -> None:
        """Serve the socket from its opening to its end."""
        if (await self._receive())["type"] != "websocket.connect":
            return
        hub = the_hub()
        try:
            # Before the acceptance, so that a ticket is spent by the time an access log has it.
            member = await self._member()
            hub.admit(member.pk)
        except CannotWatch as refusal:
            # Accepted first: a browser shows its page no code of a refused handshake.
            await self._accept()
            await self._close(refusal.ending)
            return
        try:
            await self._accept()
            ending = await self._attend(hub, member)
            if ending is not None:
                await self._close(ending)
        finally:
            hub.release(member.pk)

    # --- who, and what they may

    async def _member(self) -> User:
        ticket = ticket_in(self._scope)
        if ticket is None:
            member: Any = self._scope.get("user")
        else:
            try:
                member = await read(redeem_ticket, ticket, self._room_id)
            except (Unavailable, db.Error):
                raise CannotWatch(RESTARTING) from None
        if isinstance(member, User) and member.is_active:
            return member
        raise CannotWatch(NOT_SIGNED_IN)

    def _after(self) -> int | None:
        query = parse_qs(self._scope.get("query_string", b"").decode("latin-1"))
        if not query.get("after"):
            return None
        after = query["after"][0]
        if not (after.isascii() and after.isdigit() and len(after) <= 18):
            raise CannotWatch(BAD_MESSAGE)
        return int(after)

    async def _attend(self, hub: Hub, member: User) -> Ending | None:
        """Join, greet and converse; return why we close, or None if the client is gone."""
        room_id = str(self._room_id)
        try:
            after = self._after()
            if not await read(may, member, Permission.ROOM_TAKE_PART, Room(pk=self._room_id)):
                return NOT_HERE
            room, viewer = await hub.join(room_id=room_id, user_id=member.pk)
            try:
                # Joined first: whatever is committed from here on is collected for the viewer.
                greeting = await read(greet, room_id=room_id, user=member, after=after)
                async with asyncio.timeout(_GREETING_SECONDS):
                    await self._greet(hub, room, viewer, member, greeting)
                return await self._converse(viewer)
            finally:
                hub.leave(room=room, viewer=viewer)
        except CannotWatch as refusal:
            return refusal.ending
        except NotFound:
            return NOT_HERE
        except db.Error as gone:
            log.warning("room_not_shown", room=room_id, error=type(gone).__name__)
            return RESTARTING
        except TimeoutError:
            return RESUME
        except OSError:
            # The client is gone; there is nobody to tell.
            return None

    async def _greet(
        self, hub: Hub, room: Watched, viewer: Viewer, member: User, greeting: Greeting
    ) -> None:
        writings = room.writings
        if greeting.durable is not None:
            viewer.was_sent({stream: writing.now for stream, writing in writings.items()})
        hello = {
            "type": "hello",
            "room": {
                "id": room.room_id,
                "name": greeting.room.name,
                "closed": greeting.room.closed_at is not None,
            },
            "me": {"id": member.pk, "username": member.username, "name": member.name},
            "position": greeting.room.position,
            "revision": greeting.room.roster_revision,
            "resumed": greeting.durable is None,
            "snapshot": None
            if greeting.durable is None
            else with_live_part(
                greeting.durable,
                online=room.online | {member.pk},
                streams=[one.whole() for one in writings.values()],
            ),
        }
        await self._say(encode(hello))
        for event in greeting.events or ():
            await self._say(encode(event))
        hub.begin(
            room=room,
            viewer=viewer,
            position=greeting.room.position,
            revision=greeting.room.roster_revision,
        )
        if greeting.durable is None:
            viewer.presence_changed()

    # --- the conversation

    async def _converse(self, viewer: Viewer) -> Ending | None:
        forwarding = asyncio.create_task(self._forward(viewer))
        hearing = asyncio.create_task(self._hear(viewer))
        life = LIFE_SECONDS * random.uniform(0.9, 1.1)  # noqa: S311 (only spreads the returns)
        ends: list[asyncio.Future[Any]] = [forwarding, hearing, viewer.ended]
        try:
            await asyncio.wait(ends, timeout=life, return_when=asyncio.FIRST_COMPLETED)
        finally:
            forwarding.cancel()
            hearing.cancel()
            outcomes = await asyncio.gather(hearing, forwarding, return_exceptions=True)
        if viewer.ended.done():
            return viewer.ended.result()
        for outcome in outcomes:
            if isinstance(outcome, asyncio.CancelledError):
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome
        # Its time is over: the next socket has its sign-in checked again.
        return RESUME

    async def _forward(self, viewer: Viewer) -> Ending | None:
        while True:
            message = await viewer.next()
            viewer.blocked_since = time.monotonic()
            await self._say(message)
            viewer.blocked_since = None

    async def _hear(self, viewer: Viewer) -> Ending | None:
        allowance, counted_at = float(_BURST), time.monotonic()
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return None
            now = time.monotonic()
            allowance = min(_BURST, allowance + (now - counted_at) * _PER_SECOND) - 1
            counted_at = now
            if allowance < 0:
                return TOO_MANY
            question = _question(message)
            if question is None:
                return BAD_MESSAGE
            if question["type"] == "ping":
                viewer.ask_pong()
            else:
                viewer.ask_text(question["stream"])

    # --- the wire

    async def _accept(self) -> None:
        await self._send({"type": "websocket.accept"})

    async def _say(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def _close(self, ending: Ending) -> None:
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self._send(
                    {"type": "websocket.close", "code": ending.code, "reason": ending.reason}
                )
        except (OSError, TimeoutError):
            # Gone, or so far behind that not even this fits: the server cuts the connection.
            return


async def refuse_socket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer a socket at an address where there is nothing."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def _question(message: dict[str, Any]) -> dict[str, str] | None:
    """Read what a client may ask, or None for anything else."""
    text = message.get("text")
    if text is None or len(text) > MESSAGE_BYTES or len(text.encode()) > MESSAGE_BYTES:
        return None
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match asked:
        case {"type": "ping"} if len(asked) == 1:
            return {"type": "ping"}
        # No preview is called anything else, and what is asked for stands in the answer.
        case {"type": "text", "stream": str(stream)} if len(asked) == 2 and _STREAM.match(stream):
            return {"type": "text", "stream": stream}
    return None
