"""How does another runtime wait for a call without holding anything?

A native async view: no database connection and no thread is held while it waits for the room's
bell, and only so many may wait in one process. After each bell, and once a second for the case that
a bell was lost, the row is read again.
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
from django.http import HttpRequest, HttpResponse, JsonResponse

from apps.boundary.api.callback import call_view
from apps.boundary.api.run_token import token_in
from apps.boundary.external import run_of_token
from apps.core.api.problems import problem_response
from apps.core.errors import Refusal
from apps.domain.tooling import CallState
from apps.rooms.relay import channel_of
from apps.runs.models import Call

log = structlog.get_logger(__name__)

LONGEST_WAIT = 25.0
MAX_WAITING = 500

_waiting = 0


async def call_state(request: HttpRequest, call_id: Any) -> HttpResponse:
    """Return a call of the token's run, after at most `wait` seconds if it has not settled."""
    if request.method != "GET":
        return problem_response(status=405, code="method_not_allowed", detail="Use GET.")
    try:
        wait = _seconds(request.GET.get("wait", "0"))
        room_id, found = await _read(request.headers.get("Authorization", ""), call_id)
        if found is not None and found["state"] != CallState.SETTLED.value and wait:
            found = await _wait(request, call_id, room_id, found, wait)
    except Refusal as refusal:
        return problem_response(status=refusal.status, code=refusal.code, detail=refusal.message)
    if found is None:
        return problem_response(status=404, code="not_found", detail="This run has no such call.")
    done = found["state"] == CallState.SETTLED.value
    return JsonResponse(found, status=200 if done else 202)


async def _wait(
    request: HttpRequest, call_id: Any, room_id: str, found: dict[str, Any], wait: float
) -> dict[str, Any] | None:
    global _waiting
    if _waiting >= MAX_WAITING:
        # Nobody is turned away: without a place to wait, the answer is simply the present state.
        return found
    _waiting += 1
    until = time.monotonic() + wait
    client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2)
    try:
        async with client.pubsub(ignore_subscribe_messages=True) as bells:
            subscribed = await _subscribe(bells, room_id)
            # Again, since it may have settled before the subscription stood.
            _, latest = await _read(request.headers.get("Authorization", ""), call_id)
            while latest is not None and latest["state"] != CallState.SETTLED.value:
                left = until - time.monotonic()
                if left <= 0:
                    break
                subscribed = await _next_bell(bells, min(left, 1.0), subscribed)
                _, latest = await _read(request.headers.get("Authorization", ""), call_id)
            return latest
    finally:
        _waiting -= 1
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
def _read(header: str, call_id: Any) -> tuple[str, dict[str, Any] | None]:
    try:
        run = run_of_token(token_in(header))
        call = Call.objects.filter(pk=call_id, run=run).first()
        return str(run.room_id), None if call is None else call_view(call)
    finally:
        connection.close()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT:
        raise _BadWait(f"`wait` is a number of seconds from 0 to {LONGEST_WAIT:.0f}.", field="wait")
    return seconds


class _BadWait(Refusal):
    code = "invalid"
    status = 422
