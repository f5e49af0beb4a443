"""How does a tool's session live? Its program starts once, and the calls of one run go to it.

A session is a sandbox that lives on beside one run. It is started by the first call that needs it,
its calls run inside it one after the other, and one that has ended stays ended. However its run
ends, the session's stop command is carried out, everything in it is killed, and its folder is gone
with the sandbox; where that fails, it is said, and nothing new is started on top of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from django.db import connection, transaction

from apps.domain.wire import BadJson, JsonValue, read_json
from apps.runs.models import Run
from apps.sandbox.client import OnOutput
from apps.sandbox.errors import KernelLost, SandboxUnavailable, SessionOver
from apps.sandbox.leases import this_node
from apps.sandbox.living import Place, ask_living, close_living, open_living
from apps.sandbox.models import ToolSession
from apps.sandbox.spec import Reason, SandboxResult, SandboxSpec
from apps.sandboxd.exchange import Terms
from apps.sandboxd.frames import write_line
from apps.sandboxd.kernel_wire import Answered, Closed, Opening

STOP_SECONDS: Final = 30
DEFAULT_SECONDS: Final = 120.0
IDLE_SECONDS: Final = 30 * 60
TOTAL_SECONDS: Final = 12 * 3600
MAX_SWEPT: Final = 20
# Folders and pipes take their time, which is not the stop command's.
_GRACE_SECONDS: Final = 5
_OUTPUT: Final = "output/"
_HOST: Final = Path(__file__).with_name("harness") / "session_host.py"
_OPEN = (ToolSession.State.OPEN, ToolSession.State.ENDED, ToolSession.State.FAILED)


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its words, its folder, and its standard input."""

    argv: tuple[str, ...]
    cwd: str
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What a session is made of.

    `name` tells it from every other of its run. Each of `variables` names the session's private
    folder, and `places` are made anew for every command. `base` says what the sandbox holds.
    """

    name: str
    start: Command
    stop: Command
    base: SandboxSpec
    variables: tuple[str, ...]
    places: tuple[str, ...]


class CleanupFailed(SandboxUnavailable):
    """A session could not be stopped as it should; this stands in place of the run's result."""

    code = "session_not_cleaned_up"


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
    asked: dict[str, JsonValue] = {
        "kind": "run",
        **_said(command, deadline_s),
        "start": _said(plan.start, deadline_s),
    }
    connection.close()
    try:
        answered = ask_living(
            **_place(session),
            generation=session.generation,
            line=write_line(asked),
            deadline_s=deadline_s + 1.0,
            collect=True,
            on_output=on_output,
            cancelled=cancelled,
            path=path,
        )
    except KernelLost:
        raise _over(session, "Its sandbox is gone.") from None
    try:
        if answered.kernel_ended:
            raise _over(session, answered.result.detail)
        return _judge(session, answered)
    except SessionOver as over:
        over.crossings = answered.result.crossings
        raise


def _session_of(run_id: uuid.UUID, plan: SessionPlan, *, path: Path | None) -> ToolSession:
    """Return the living session of a run, or raise what stands against it."""
    known = ToolSession.objects.filter(run_id=run_id, name=plan.name).first()
    if known is None:
        sweep(path=path)
        # Recorded before anything of it exists, so that whoever sweeps will find it.
        known, _ = ToolSession.objects.get_or_create(
            run_id=run_id, name=plan.name, defaults={"node": this_node()}
        )
    if known.state != ToolSession.State.OPEN:
        raise SessionOver(known.sentence or "The session has ended.")
    if known.node != this_node():
        raise _over(known, "It lived on another machine.")
    if known.generation:
        return known
    connection.close()
    opened = open_living(_opening(known, plan), path=path)
    ToolSession.objects.filter(pk=known.pk, generation="").update(generation=opened.generation)
    known.refresh_from_db()
    return known


def _opening(session: ToolSession, plan: SessionPlan) -> Opening:
    given = json.dumps({"variables": plan.variables, "places": plan.places})
    spec = replace(
        plan.base,
        argv=("/runtime/bin/python3", "-I", "-S", "-B", "/kaizen/session_host.py", given),
        harness=(("session_host.py", _HOST.read_bytes()),),
        stdin=b"",
        keep_workspace=False,
        outputs=(),
    )
    stop: dict[str, JsonValue] = {"kind": "stop", **_said(plan.stop, STOP_SECONDS)}
    terms = Terms(
        idle_ms=IDLE_SECONDS * 1000,
        total_ms=TOTAL_SECONDS * 1000,
        farewell=write_line(stop),
        farewell_ms=(STOP_SECONDS + _GRACE_SECONDS) * 1000,
        interrupt=write_line({"kind": "interrupt"}),
    )
    return Opening(**_place(session), spec=spec, terms=terms)


def _place(session: ToolSession) -> Place:
    name = hashlib.sha256(session.name.encode()).hexdigest()[:32]
    return {"key": f"session.{session.run_id}.{name}", "owner": f"run.{session.run_id}"}


def _said(command: Command, seconds: float) -> dict[str, JsonValue]:
    return {
        "argv": list(command.argv),
        "cwd": command.cwd,
        "stdin": base64.b64encode(command.stdin).decode(),
        "deadline_ms": max(1, int(seconds * 1000)),
    }


def _over(session: ToolSession, sentence: str) -> SessionOver:
    """Note that a session has ended, and return what its calls hear from now on."""
    said = f"The session ended. {sentence}"[:300]
    ToolSession.objects.filter(pk=session.pk, state=ToolSession.State.OPEN).update(
        state=ToolSession.State.ENDED, sentence=said
    )
    return SessionOver(said)


def _judge(session: ToolSession, answered: Answered) -> SandboxResult:
    """Say of a session's call what is said of any program; the host's word is read strictly."""
    result = answered.result
    changes = result.workspace
    if changes is not None:
        kept = tuple(one for one in changes.changed if one.name.startswith(_OUTPUT))
        result = replace(result, workspace=replace(changes, changed=kept, removed=()))
    if result.reason is not Reason.OK:
        return result
    match _read(result.result):
        case {"state": "done", "exit": int(code)}:
            reason = Reason.OK if code == 0 else Reason.EXIT
            return replace(result, reason=reason, exit_code=code)
        case {"state": "timeout"}:
            return replace(result, reason=Reason.WALL_TIMEOUT)
        case {"state": "interrupted"}:
            return replace(result, reason=Reason.CANCELLED)
        case {"state": "unspawned", "message": str(message)}:
            return replace(result, reason=Reason.EXIT, exit_code=127, detail=message[:300])
        case {"state": "ended" | "failed" as state, "message": str(message)}:
            if state == "ended":
                raise _over(session, message[:200])
            # The same failure answers every later call: it is never started again.
            raise _over(session, f"It did not start. {message[:200]}")
    return replace(result, reason=Reason.PROTOCOL_ERROR, detail="The session gave no answer.")


def _read(said: bytes) -> dict[str, JsonValue]:
    try:
        value = read_json(said, max_bytes=64 * 1024)
    except BadJson:
        return {}
    return value if isinstance(value, dict) and value.get("kind") == "done" else {}


def close_sessions(*, run_id: uuid.UUID, path: Path | None = None) -> None:
    """End every session of a run; raise CleanupFailed where one of them did not end as it should.

    All are tried before anything is said.
    """
    failed = [
        sentence
        for session in ToolSession.objects.filter(run_id=run_id, state__in=_OPEN)
        if (sentence := _close(session, path=path))
    ]
    if failed:
        raise CleanupFailed(failed[0])


def sweep(*, path: Path | None = None) -> None:
    """End the sessions on this node whose run is over; raise CleanupFailed where that fails."""
    left = ToolSession.objects.filter(
        run__state=Run.State.FINISHED, state__in=_OPEN, node=this_node()
    ).order_by("started_at")
    for session in left[:MAX_SWEPT]:
        if sentence := _close(session, path=path):
            raise CleanupFailed(sentence)


def left_behind(limit: int) -> Iterable[Any]:
    """Ids of sessions whose run is over."""
    return (
        ToolSession.objects.filter(run__state=Run.State.FINISHED)
        .exclude(state__in=(ToolSession.State.CLOSED, ToolSession.State.FAILED))
        .order_by("started_at")
        .values_list("pk", flat=True)[:limit]
    )


def close_left_behind(*, session_id: Any) -> None:
    """End one session whose run is over, if there still is one."""
    session = ToolSession.objects.filter(pk=session_id, run__state=Run.State.FINISHED).first()
    if session is not None and session.state in _OPEN:
        _close(session)


def _close(session: ToolSession, *, path: Path | None = None) -> str:
    """End one session and keep how that went; return what went wrong, if anything."""
    connection.close()
    try:
        closed = close_living(**_place(session), path=path)
    except SandboxUnavailable as away:
        return f"A session could not be ended. {away.message}"
    sentence = _unclean(session, closed)
    state = ToolSession.State.FAILED if sentence else ToolSession.State.CLOSED
    with transaction.atomic():
        ToolSession.objects.filter(pk=session.pk).update(
            state=state, sentence=sentence or session.sentence or "The session has ended."
        )
    return sentence


def _unclean(session: ToolSession, closed: Closed) -> str:
    """Say what was not as it should be at the end of a session, if anything."""
    if not closed.was_there:
        # Nothing of it lives anywhere: a sandbox takes all that is in it along.
        return ""
    match _read(closed.said):
        case {"state": "done", "exit": 0}:
            return ""
        case {"state": "done", "exit": int(code)}:
            return f"The stop command of a session ended with exit code {code}."
        case {"state": "timeout"}:
            return f"The stop command of a session did not end within {STOP_SECONDS} s."
        case {"state": "unspawned"}:
            return "The stop command of a session could not be started."
        case {"state": "left_over"}:
            return "The folder of a session could not be removed."
    return "A session ended without its stop command."
