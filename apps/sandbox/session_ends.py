"""How does a session end, whatever becomes of its run?

Its stop command is carried out, everything in it is killed, and its folder is gone with the
sandbox, all within thirty seconds; where that fails, it is said. The row is the queue: it is there
before the session is, and stays open until the end was confirmed. So whoever dies in between leaves
a row that the sweep finds, and nothing new is started on top of what could not be cleaned up.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.core.queue import ring_at
from apps.runs.models import Run
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.leases import this_node
from apps.sandbox.living import Place
from apps.sandbox.models import ToolSession
from apps.sandbox.session_program import STOP_SECONDS, close_session, ended

END_TASK: Final = "sandbox.close_session"
MAX_SWEPT: Final = 20
ENDING_FOR: Final = timedelta(seconds=STOP_SECONDS + 5)
"""Whoever ends a session has done so after this, or is gone."""
LOST_AFTER: Final = timedelta(minutes=31)
"""So long after its node was asked in vain has a session ended by itself, for being idle."""
_MOST_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 0.2

_OPEN: Final = (ToolSession.State.OPEN, ToolSession.State.ENDED)
_LOST: Final = "Its machine did not answer, so its stop command may not have run."


class CleanupFailed(SandboxUnavailable):
    """A session could not be stopped as it should; this stands in place of the run's result."""

    code = "session_not_cleaned_up"


def place_of(session: ToolSession) -> Place:
    """Return under which key a session lives, and who alone may ask for it."""
    name = hashlib.sha256(session.name.encode()).hexdigest()[:32]
    return {"key": f"session.{session.run_id}.{name}", "owner": f"run.{session.run_id}"}


def has_sessions(run_id: Any) -> bool:
    """Tell whether a run has sessions that were not ended, or could not be cleaned up."""
    rows = ToolSession.objects.filter(run_id=run_id)
    return rows.exclude(state=ToolSession.State.CLOSED).exists()


def open_sessions(run_id: Any) -> QuerySet[ToolSession]:
    """Return the sessions of a run that still live somewhere, as far as is known."""
    rows: QuerySet[ToolSession] = ToolSession.objects.filter(run_id=run_id, state__in=_OPEN)
    return rows


def close_sessions(*, run_id: uuid.UUID, why: str = "", path: Path | None = None) -> None:
    """End every session of a run at once; raise CleanupFailed where one did not end as it should.

    All are tried before anything is said, and nobody waits longer than the thirty seconds. Those on
    other machines are ended there. Should the run go on, the next call that needs one hears `why`,
    and the one after starts it afresh.
    """
    ask_to_close(run_id=run_id, without=this_node())
    until = time.monotonic() + STOP_SECONDS
    here = list(open_sessions(run_id).filter(node=this_node()))
    connection.close()
    if here:
        with ThreadPoolExecutor(_MOST_AT_ONCE) as closers:
            said = list(closers.map(lambda one: _closed(one, path), here))
        for session, sentence in zip(here, said, strict=True):
            _note(session, sentence, why)
    while open_sessions(run_id).exclude(node=this_node()).exists() and time.monotonic() < until:
        connection.close()
        time.sleep(_LOOK_SECONDS)
    if unclean := failure_of(run_id):
        raise CleanupFailed(unclean)


def ask_to_close(*, run_id: Any, without: str = "") -> None:
    """Let every session of a run end, each on its own machine, without waiting for it.

    Those of the machine `without` are only noted: whoever asks ends them.
    """
    for session in open_sessions(run_id):
        ToolSession.objects.filter(pk=session.pk, ending_at=None).update(ending_at=Now())
        if session.node != without:
            ring_at(session.node, END_TASK, session_id=str(session.pk))


def failure_of(run_id: Any) -> str:
    """Say what was not cleaned up of a run's sessions, or nothing where all is."""
    rows = ToolSession.objects.filter(run_id=run_id).exclude(state=ToolSession.State.CLOSED)
    left = rows.order_by("started_at").first()
    if left is None:
        return ""
    return left.sentence or f"A session did not end within {STOP_SECONDS} s."


def sweep(*, path: Path | None = None) -> None:
    """End the sessions on this node whose run is over; raise CleanupFailed where that fails."""
    left = ToolSession.objects.filter(
        run__state=Run.State.FINISHED,
        state__in=(*_OPEN, ToolSession.State.FAILED),
        node=this_node(),
    ).order_by("started_at")
    for session in left[:MAX_SWEPT]:
        connection.close()
        if sentence := _note(session, _closed(session, path)):
            raise CleanupFailed(sentence)


def left_behind(limit: int) -> Iterable[Any]:
    """Ids of sessions that are to end, and that nobody ends now: their run is over, or whoever
    asked for it has gone.
    """
    silent = Q(ending_at=None) | Q(ending_at__lt=Now() - ENDING_FOR)
    rows = _left_behind().filter(silent).order_by("started_at")
    return rows.values_list("pk", flat=True)[:limit]


def close_left_behind(*, session_id: Any, path: Path | None = None) -> None:
    """End one session that is to end, here or on the machine where it lives."""
    session = _left_behind().filter(pk=session_id).first()
    if session is None:
        return
    rows = ToolSession.objects.filter(pk=session.pk)
    rows.update(ending_at=Now())
    if session.node == this_node():
        connection.close()
        _note(session, _closed(session, path))
        return
    rows.filter(asked_at=None).update(asked_at=Now())
    if rows.filter(asked_at__lt=Now() - LOST_AFTER).exists():
        _note(session, _LOST)
        return
    ring_at(session.node, END_TASK, session_id=str(session.pk))


def _left_behind() -> QuerySet[ToolSession]:
    due = Q(run__state=Run.State.FINISHED) | Q(ending_at__isnull=False)
    rows: QuerySet[ToolSession] = ToolSession.objects.filter(due, state__in=_OPEN)
    return rows


def _closed(session: ToolSession, path: Path | None) -> str | None:
    """End one session; return what went wrong, if anything, and None where nobody could say."""
    try:
        return close_session(place_of(session), path=path)
    except SandboxUnavailable:
        return None


def _note(session: ToolSession, sentence: str | None, why: str = "") -> str:
    """Keep how the end of a session went, unless somebody has noted it; return what is wrong.

    Where nobody could say, it stays to be ended.
    """
    if sentence is None:
        return "A session could not be ended: the sandbox supervisor did not answer."
    state = ToolSession.State.FAILED if sentence else ToolSession.State.CLOSED
    ToolSession.objects.filter(pk=session.pk, state__in={*_OPEN, session.state}).update(
        state=state, sentence=sentence or ended(why)
    )
    return sentence
