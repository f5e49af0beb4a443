"""How does another runtime wait for a call without holding anything?

A native async view: no database connection and no thread is held while it waits for the room's
bell, and only so many may wait in one process. After each bell, and once a second for the case that
a bell was lost, the row is read again. The answer itself is the ordinary view's.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import redis.asyncio
import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.boundary.api.callback import LONGEST_WAIT, CallView
from apps.boundary.api.run_token import token_in
from apps.boundary.external import BadToken, run_of_token
from apps.domain.tooling import CallState
from apps.rooms.relay import channel_of
from apps.runs.models import Call

log = structlog.get_logger(__name__)

MAX_WAITING = 500

_waiting = 0
_answer = CallView.as_view()


async def call_state(request: HttpRequest, call_id: Any) -> HttpResponseBase:
    """Wait for a call of the token's run as long as asked to, then answer where it stands."""
    global _waiting
    seconds = _seconds(request)
    # Nobody is turned away: without a place to wait, the answer is simply the present state.
    if seconds and _waiting < MAX_WAITING:
        _waiting += 1
        try:
            await _wait(request.headers.get("Authorization", ""), call_id, seconds)
        finally:
            _waiting -= 1
    response: HttpResponseBase = await sync_to_async(_answer)(request, call_id=call_id)
    return response


# What the router and the OpenAPI document look for on a view.
call_state.csrf_exempt = True  # type: ignore[attr-defined]
call_state.cls = CallView  # type: ignore[attr-defined]
call_state.initkwargs = {}  # type: ignore[attr-defined]


async def _wait(header: str, call_id: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    room_id = await _open_in(header, call_id)
    if room_id is None:
        return
    client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2)
    try:
        async with client.pubsub(ignore_subscribe_messages=True) as bells:
            subscribed = await _subscribe(bells, room_id)
            # Again, since it may have settled before the subscription stood.
            while await _open_in(header, call_id) is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return
                subscribed = await _next_bell(bells, min(left, 1.0), subscribed)
    finally:
        await client.aclose()


async def _subscribe(bells: Any, room_id: str) -> bool:
    try:
        await bells.subscribe(channel_of(room_id))
    except redis.RedisError as away:
        log.warning("waiting_without_bells", error=type(away).__name__)
        return False
    return True


async def _next_bell(bells: Any, patience: float, subscribed: bool) -> bool:
    if not subscribed:
        await asyncio.sleep(patience)
        return False
    try:
        await bells.get_message(timeout=patience)
    except redis.RedisError as away:
        log.warning("waiting_without_bells", error=type(away).__name__)
        return False
    return True


@sync_to_async
def _open_in(header: str, call_id: Any) -> str | None:
    """Return the room in which the token's call is still open; None where nothing is to await."""
    try:
        run = run_of_token(token_in(header))
        call = Call.objects.filter(pk=call_id, run=run).exclude(state=CallState.SETTLED.value)
        return str(run.room_id) if call.exists() else None
    except BadToken:
        # The view says so.
        return None
    finally:
        connection.close()


def _seconds(request: HttpRequest) -> float:
    """Return the asked seconds, or none where the view refuses what was asked."""
    try:
        seconds = float(request.GET.get("wait", "0"))
    except ValueError:
        return 0.0
    return seconds if request.method == "GET" and 0 < seconds <= LONGEST_WAIT else 0.0
