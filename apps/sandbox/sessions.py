"""How does a tool's session live? Its program starts once, and the calls of one run go to it.

A session is a sandbox that lives on beside one run. It is started by the first call that needs it,
its calls run inside it one after the other, and one that has ended by itself stays ended. How it is
ended stands in `session_ends`.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.sandbox.client import OnOutput
from apps.sandbox.errors import SandboxUnavailable, SessionOver
from apps.sandbox.leases import this_node
from apps.sandbox.living import Place
from apps.sandbox.models import ToolSession
from apps.sandbox.session_ends import CleanupFailed, place_of, sweep
from apps.sandbox.session_program import (
    DEFAULT_SECONDS,
    Asking,
    Command,
    Door,
    SessionPlan,
    ask_session,
    close_session,
    ended,
    open_session,
)
from apps.sandbox.spec import SandboxResult
from apps.sandboxd.exchange import Terms

IDLE_SECONDS: Final = 30 * 60
TOTAL_SECONDS: Final = 12 * 3600
TERMS: Final = Terms(idle_ms=IDLE_SECONDS * 1000, total_ms=TOTAL_SECONDS * 1000)
OWN_TERMS: Final = Terms(idle_ms=5_000, total_ms=15 * 60 * 1000)
SILENCE_SECONDS: Final = 30
"""So long may a node leave its calls unanswered before its sessions are taken for lost."""


def call_in_session(
    *,
    run_id: uuid.UUID,
    plan: SessionPlan,
    command: Command,
    deadline_s: float = DEFAULT_SECONDS,
    on_output: OnOutput | None = None,
    cancelled: Callable[[], bool] | None = None,
    path: Path | None = None,
) -> SandboxResult:
    """Run one command inside the session of a run, which is started now where it never was.

    What it left below `output/` comes back as the workspace's changes. Raises SessionOver where
    the session did not start or has ended, CleanupFailed where an old one is in the way, and what
    opening a sandbox raises.
    """
    session = _session_of(run_id, plan, path=path)
    connection.close()
    asking = Asking(plan, command, deadline_s, on_output, cancelled, path)
    try:
        return ask_session(place_of(session), session.generation, asking)
    except SessionOver as over:
        raise _over(session, over) from None


def session_of_run(run_id: uuid.UUID) -> Door:
    """Return the way to the sessions of a run."""

    def ask(asking: Asking) -> SandboxResult:
        return call_in_session(
            run_id=run_id,
            plan=asking.plan,
            command=asking.command,
            deadline_s=asking.deadline_s,
            cancelled=asking.cancelled,
            path=asking.path,
        )

    return ask


class OwnSession:
    """The session of one check, started by the first call that needs it.

    Nothing of it is written down. Should its process die, it ends by itself in a moment.
    """

    def __init__(self) -> None:
        name = f"check.{secrets.token_hex(16)}"
        self._place: Place = {"key": name, "owner": name}
        self._generation = ""
        self._path: Path | None = None

    def ask(self, asking: Asking) -> SandboxResult:
        """Run one command inside the session."""
        if not self._generation:
            self._path = asking.path
            self._generation = open_session(self._place, asking.plan, OWN_TERMS, path=asking.path)
        return ask_session(self._place, self._generation, asking)

    def close(self) -> None:
        """End it, if it was started; raise CleanupFailed where that did not go as it should."""
        if not self._generation:
            return
        try:
            unclean = close_session(self._place, path=self._path)
        except SandboxUnavailable as away:
            unclean = f"The session could not be ended. {away.message}"
        if unclean:
            raise CleanupFailed(unclean)


def _session_of(run_id: uuid.UUID, plan: SessionPlan, *, path: Path | None) -> ToolSession:
    """Return the living session of a run, or raise what stands against it."""
    known = ToolSession.objects.filter(run_id=run_id, name=plan.name).first()
    if known is None:
        sweep(path=path)
        # Recorded before anything of it exists, so that whoever sweeps will find it.
        known, _ = ToolSession.objects.get_or_create(
            run_id=run_id, name=plan.name, defaults={"node": this_node()}
        )
    if known.state == ToolSession.State.CLOSED:
        # It was ended for the run's sake, and the run went on: said once, then it starts afresh.
        ToolSession.objects.filter(pk=known.pk, state=known.state).delete()
        raise SessionOver(f"{known.sentence} The next call starts a fresh one.")
    if known.state != ToolSession.State.OPEN:
        raise SessionOver(known.sentence or "The session has ended.")
    if known.ending_at is not None:
        raise SandboxUnavailable("The session is being ended. Try again in a moment.")
    if known.node != this_node():
        raise _elsewhere(known)
    if known.generation:
        return known
    connection.close()
    generation = open_session(place_of(known), plan, TERMS, path=path)
    ToolSession.objects.filter(pk=known.pk, generation="").update(generation=generation)
    known.refresh_from_db()
    return known


def _elsewhere(session: ToolSession) -> SandboxUnavailable:
    """Return why a session of another machine cannot be used here: it is not touched by that."""
    since = Now() - timedelta(seconds=SILENCE_SECONDS)
    if ToolSession.objects.filter(pk=session.pk, asked_at__lt=since).exists():
        said = "It lived on another machine, which is not there any more."
        return _over(session, SessionOver(ended(said)))
    return SandboxUnavailable("The session lives on another machine. Try again in a moment.")


def sessions_of_others() -> QuerySet[ToolSession]:
    """Return the sessions that live on other nodes, or that an earlier look took for such."""
    rows: QuerySet[ToolSession] = ToolSession.objects.filter(state=ToolSession.State.OPEN)
    return rows.filter(~Q(node=this_node()) | Q(asked_at__isnull=False))


def session_home(*, run_id: uuid.UUID, name: str) -> str:
    """Name the other node where a session of a run lives, or nothing to stay here.

    A node that was asked in vain for a while is taken for lost: then the call stays here, and is
    told that its session is over.
    """
    rows = ToolSession.objects.filter(run_id=run_id, name=name, state=ToolSession.State.OPEN)
    # Whoever looks here answers for this node, whatever then becomes of the call.
    rows.filter(node=this_node(), asked_at__isnull=False).update(asked_at=None)
    elsewhere = rows.exclude(node=this_node())
    elsewhere.filter(asked_at=None).update(asked_at=Now())
    waits = elsewhere.filter(asked_at__gte=Now() - timedelta(seconds=SILENCE_SECONDS))
    return waits.values_list("node", flat=True).first() or ""


def _over(session: ToolSession, over: SessionOver) -> SessionOver:
    """Note that a session has ended: the same words answer every later call."""
    ToolSession.objects.filter(pk=session.pk, state=ToolSession.State.OPEN).update(
        state=ToolSession.State.ENDED, sentence=over.message
    )
    return over
