"""How does another runtime wait for a call without holding anything?

A native async view: no database connection and no thread is held while it waits, and only so many
may wait in one process. The answer itself is the ordinary view's.
"""

from __future__ import annotations

import uuid

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.boundary.api.callback import LONGEST_WAIT, CallView
from apps.boundary.api.run_token import run_speaking
from apps.boundary.waiters import the_waiters
from apps.core.errors import Refusal
from apps.domain.tooling import CallState
from apps.rooms.reads import read
from apps.runs.models import Run
from apps.runs.selectors import call_of_run

_answer = CallView.as_view()


async def call_state(request: HttpRequest, call_id: uuid.UUID) -> HttpResponseBase:
    """Wait for a call of the token's run as long as asked to, then answer where it stands."""
    seconds = _seconds(request)
    # Nobody is turned away: without a place to wait, the answer is simply the present state.
    if seconds and not the_waiters().full:
        run = await read(_open_for, request, call_id)
        if run is not None:
            await the_waiters().wait(
                room_id=str(run.room_id),
                call_id=call_id,
                seconds=seconds,
                member_id=run.member_id,
            )
    response: HttpResponseBase = await sync_to_async(_answer)(request, call_id=call_id)
    return response


# What the router and the OpenAPI document look for on a view.
call_state.csrf_exempt = True  # type: ignore[attr-defined]
call_state.cls = CallView  # type: ignore[attr-defined]
call_state.initkwargs = {}  # type: ignore[attr-defined]


def _open_for(request: HttpRequest, call_id: uuid.UUID) -> Run | None:
    """Return the token's run while its call is still open; None where nothing is to await."""
    try:
        run = run_speaking(request)
    except Refusal:
        # The view says so.
        return None
    call = call_of_run(run_id=run.pk, call_id=call_id)
    waits = call is not None and call.state != CallState.SETTLED.value
    return run if waits else None


def _seconds(request: HttpRequest) -> float:
    """Return the asked seconds, or none where the view refuses what was asked."""
    try:
        seconds = float(request.GET.get("wait", "0"))
    except ValueError:
        return 0.0
    return seconds if request.method == "GET" and 0 < seconds <= LONGEST_WAIT else 0.0
