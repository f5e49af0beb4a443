"""How does a runtime wait for a call without holding a connection or a thread?

The wait hears the room's bells and looks again at each, and once a second anyway, because a bell
may be lost. The answer itself is then given by the ordinary view.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from redis import asyncio as aioredis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from apps.boundary.api.callback import CallbackCallView, presented_token
from apps.boundary.external import BadToken, run_of_token
from apps.domain.tooling import CallState
from apps.rooms.reads import read
from apps.rooms.relay import channel_of
from apps.runs.models import Call

log = structlog.get_logger(__name__)

LONGEST = 25
LOOK_EVERY = 1.0
MOST_AT_ONCE = 64
"""Waits in one process; one more is answered at once instead."""

_waiting = 0
_answer = CallbackCallView.as_view()


async def callback_call(request: HttpRequest, call_id: uuid.UUID) -> HttpResponseBase:
    """Wait for the outcome as long as asked to, then answer as the view does."""
    global _waiting
    seconds = _seconds(request)
    if seconds and _waiting < MOST_AT_ONCE:
        _waiting += 1
        try:
            await _wait(request, call_id, seconds)
        finally:
            _waiting -= 1
    response: HttpResponseBase = await sync_to_async(_answer)(request, call_id=call_id)
    return response


# What the address book and the OpenAPI document look for on a view.
callback_call.csrf_exempt = True  # type: ignore[attr-defined]
callback_call.cls = _answer.cls  # type: ignore[attr-defined]
callback_call.initkwargs = _answer.initkwargs  # type: ignore[attr-defined]


async def _wait(request: HttpRequest, call_id: uuid.UUID, seconds: int) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    found = await read(_whose, request.headers.get("Authorization", ""), call_id)
    if found is None:
        return
    room_id, settled = found
    if settled:
        return
    async with _bells(room_id) as bells:
        # Looked at once more after the bells are heard, so none falls between.
        while not await read(_is_settled, call_id):
            left = end - loop.time()
            if left <= 0:
                return
            await _hear(bells, min(left, LOOK_EVERY))


def _whose(header: str, call_id: uuid.UUID) -> tuple[str, bool] | None:
    """Return the room of the call and whether it has settled, if the token is that of its run."""
    token = presented_token(header.encode("ascii", "replace"))
    if token is None:
        return None
    try:
        run = run_of_token(token)
    except BadToken:
        # The view says so.
        return None
    state = Call.objects.filter(pk=call_id, run=run).values_list("state", flat=True).first()
    return None if state is None else (str(run.room_id), state == CallState.SETTLED.value)


def _is_settled(call_id: uuid.UUID) -> bool:
    return not Call.objects.filter(pk=call_id).exclude(state=CallState.SETTLED.value).exists()


@contextlib.asynccontextmanager
async def _bells(room_id: str) -> AsyncIterator[PubSub | None]:
    """Hear the bells of a room, or nothing while Redis is away."""
    client: Any = aioredis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=2.0, socket_connect_timeout=1.0, retry=None
    )
    try:
        async with client.pubsub(ignore_subscribe_messages=True) as bells:
            try:
                await bells.subscribe(channel_of(room_id))
            except (RedisError, OSError) as gone:
                log.warning("wait_hears_nothing", error=type(gone).__name__)
                yield None
            else:
                yield bells
    finally:
        await client.aclose()


async def _hear(bells: PubSub | None, seconds: float) -> None:
    if bells is None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            while await bells.get_message(timeout=seconds) is None:
                continue
    except TimeoutError:
        return
    except (RedisError, OSError) as gone:
        log.warning("wait_hears_nothing", error=type(gone).__name__)
        await asyncio.sleep(seconds)


def _seconds(request: HttpRequest) -> int:
    wanted = request.GET.get("wait", "")
    # Anything else is judged by the view.
    whole = wanted.isascii() and wanted.isdigit() and len(wanted) <= 2
    return int(wanted) if request.method == "GET" and whole and int(wanted) <= LONGEST else 0
