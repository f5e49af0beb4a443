"""How does whoever waits for a call get its answer without everything that pages need around it?

A runtime asks where a call stands as often as it proposes calls that take a while. A plain question
is answered here like a plain proposal at its door: no thread and no connection is held while it
waits, and whoever hangs up gives its place free at once. Anything else goes through Django.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import connection

from apps.boundary.api.callback import LONGEST_WAIT
from apps.boundary.api.plain import PATH, Look, look_plainly
from apps.boundary.waiters import the_waiters
from apps.runs.models import Run
from kaizen.plainly import again, begin_lines, leave_line, plain_headers, send_answer

log = structlog.get_logger(__name__)

THREADS = 4
"""Fewer than the connection pool holds, so that others always find one too."""

_WHERE = re.compile(
    re.escape(PATH) + r"/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
)
_HOW_LONG = re.compile(rb"(?:wait=(\d{1,2}(?:\.\d{1,6})?))?")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A plain question: which call, how many seconds to wait, and who asks."""

    call_id: uuid.UUID
    seconds: float
    authorization: str
    scope: dict[str, Any]
    correlation_id: uuid.UUID


class WaitDoor:
    """An ASGI application that answers plain questions, and hands on everything else."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        # Apart from those that read for sockets: each of these also counts, and may wait for that.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="questions")

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        asked = _read(scope)
        if asked is None:
            await self._inside(scope, receive, send)
            return
        body, more = b"", True
        while more and not body:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, more = message.get("body", b""), message.get("more_body", False)
        if body:
            await self._inside(scope, again(body, not more, receive), send)
            return
        lines = contextvars.Context()
        lines.run(begin_lines, scope, asked.correlation_id)
        try:
            look = await self._told(asked, receive)
        except Exception:  # noqa: BLE001 - whatever broke, its view answers and tells as usual
            lines.run(log.exception, "question_broke")
            await self._inside(scope, again(b"", True, receive), send)
            return
        if look is None:
            lines.run(log.warning, "request_cancelled", request=f"GET {scope['path']}")
            return
        lines.run(leave_line, look.answer, f"GET {scope['path']}")
        await send_answer(
            send,
            look.answer,
            allow=b"GET, HEAD, OPTIONS",
            secure=scope["scheme"] == "https",
            correlation_id=asked.correlation_id,
        )

    async def _told(self, asked: _Asked, receive: Any) -> Look | None:
        """Look, wait and look again; None where nobody listens any more."""
        look = await self._look(asked, counted=False)
        if look.awaited is None or not asked.seconds:
            return look
        if not await _waited(look.awaited, asked, receive):
            return None
        return await self._look(asked, counted=True)

    async def _look(self, asked: _Asked, *, counted: bool) -> Look:
        def look() -> Look:
            begin_lines(asked.scope, asked.correlation_id)
            try:
                return look_plainly(asked.authorization, asked.call_id, counted=counted)
            finally:
                connection.close()

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, contextvars.Context().run, look)


def _read(scope: dict[str, Any]) -> _Asked | None:
    """Return what is asked where it is plain, or None where its view has to look at it."""
    where = _WHERE.fullmatch(scope["path"]) if scope["method"] == "GET" else None
    how_long = _HOW_LONG.fullmatch(scope["query_string"])
    if where is None or how_long is None or float(how_long[1] or 0) > LONGEST_WAIT:
        return None
    headers = plain_headers(scope)
    # A proof is counted, and that is its view's to do.
    if headers is None or b"dpop" in headers:
        return None
    return _Asked(
        uuid.UUID(where[1]),
        float(how_long[1] or 0),
        headers[b"authorization"].decode("latin-1"),
        scope,
        uuid.uuid4(),
    )


async def _waited(run: Run, asked: _Asked, receive: Any) -> bool:
    """Wait until the call has settled or the time is over; False where nobody listens any more."""
    waiting = asyncio.ensure_future(
        the_waiters().wait(
            room_id=str(run.room_id),
            call_id=asked.call_id,
            seconds=asked.seconds,
            member_id=run.member_id,
        )
    )
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
        return waiting.done()
    finally:
        for task in (waiting, gone):
            task.cancel()
        await asyncio.gather(waiting, gone, return_exceptions=True)
