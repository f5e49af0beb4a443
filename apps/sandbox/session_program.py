"""What is a session made of, and what is said to the program that hosts it?

The host runs a session's program, its calls and its stop command inside one sandbox. What it says
is a claim, and is read strictly. Nothing here knows who keeps a session, or for how long.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from apps.domain.wire import BadJson, JsonValue, read_json
from apps.sandbox.client import OnOutput
from apps.sandbox.errors import KernelLost, SessionOver
from apps.sandbox.living import Place, ask_living, close_living, open_living
from apps.sandbox.spec import Reason, SandboxResult, SandboxSpec
from apps.sandboxd.exchange import Terms
from apps.sandboxd.frames import write_line
from apps.sandboxd.kernel_wire import Answered, Closed, Opening

STOP_SECONDS: Final = 30
"""Within this a session is over: its stop command, and the killing that follows."""
KILL_SECONDS: Final = 5
DEFAULT_SECONDS: Final = 120.0
_CLOSE_SECONDS: Final = STOP_SECONDS + 5.0
_OUTPUT: Final = "output/"
_STARTING: Final = (
    "The session's program is still getting ready, and goes on with that. Call again to wait for it"
    " longer; nothing was called yet."
)
_HOST: Final = Path(__file__).with_name("harness") / "session_host.py"


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
    folder. `places` are made anew for every command but its start, whose `own_places` stay as long
    as it runs. `base` says what the sandbox holds.
    """

    name: str
    start: Command
    stop: Command
    base: SandboxSpec
    variables: tuple[str, ...]
    places: tuple[str, ...]
    own_places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """One command that is to be run inside a session, and who listens to it."""

    plan: SessionPlan
    command: Command
    deadline_s: float = DEFAULT_SECONDS
    on_output: OnOutput | None = None
    cancelled: Callable[[], bool] | None = None
    path: Path | None = None


Door = Callable[[Asking], SandboxResult]
"""Runs a command inside the session that its plan names."""


def ask_session(place: Place, generation: str, asking: Asking) -> SandboxResult:
    """Run one command inside a living session; raise SessionOver where that has ended."""
    seconds = asking.deadline_s
    asked: dict[str, JsonValue] = {
        "kind": "run",
        **_said(asking.command, seconds),
        # It has no time of its own: what is not ready yet goes on getting ready.
        "start": _said(asking.plan.start, seconds),
    }
    try:
        answered = ask_living(
            **place,
            generation=generation,
            line=write_line(asked),
            deadline_s=seconds + 1.0,
            collect=True,
            on_output=asking.on_output,
            cancelled=asking.cancelled,
            path=asking.path,
        )
    except KernelLost:
        raise SessionOver(ended("Its sandbox is gone.")) from None
    try:
        if answered.kernel_ended:
            raise SessionOver(ended(answered.result.detail))
        return _judge(answered)
    except SessionOver as over:
        over.crossings = answered.result.crossings
        raise


def open_session(place: Place, plan: SessionPlan, terms: Terms, *, path: Path | None) -> str:
    """Start the sandbox of a session, where there is none, and return which one it is.

    Its program starts with the first call. `terms` say how long it may be left alone.
    """
    stop: dict[str, JsonValue] = {"kind": "stop", **_said(plan.stop, STOP_SECONDS - KILL_SECONDS)}
    own = replace(
        terms,
        farewell=write_line(stop),
        farewell_ms=STOP_SECONDS * 1000,
        interrupt=write_line({"kind": "interrupt"}),
    )
    return open_living(Opening(**place, spec=_spec(plan), terms=own), path=path).generation


def close_session(place: Place, *, path: Path | None) -> str:
    """End a session within its 30 s, and return what was not as it should be, if anything.

    Raises SandboxUnavailable where nobody can say what became of it.
    """
    return _unclean(close_living(**place, path=path, seconds=_CLOSE_SECONDS))


def _spec(plan: SessionPlan) -> SandboxSpec:
    given = json.dumps(
        {"variables": plan.variables, "places": plan.places, "own_places": plan.own_places}
    )
    return replace(
        plan.base,
        argv=("/runtime/bin/python3", "-I", "-S", "-B", "/kaizen/session_host.py", given),
        harness=(("session_host.py", _HOST.read_bytes()),),
        stdin=b"",
        keep_workspace=False,
        outputs=(),
    )


def _said(command: Command, seconds: float) -> dict[str, JsonValue]:
    return {
        "argv": list(command.argv),
        "cwd": command.cwd,
        "stdin": base64.b64encode(command.stdin).decode(),
        "deadline_ms": max(1, int(seconds * 1000)),
    }


def ended(why: str) -> str:
    """Return the words in which the end of a session is told."""
    return f"The session ended. {why}"[:300].strip()


def _judge(answered: Answered) -> SandboxResult:
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
        case {"state": "starting"}:
            return replace(result, reason=Reason.WALL_TIMEOUT, detail=_STARTING)
        case {"state": "interrupted"}:
            return replace(result, reason=Reason.CANCELLED)
        case {"state": "unspawned", "message": str(message)}:
            return replace(result, reason=Reason.EXIT, exit_code=127, detail=message[:300])
        case {"state": "ended" | "failed" as state, "message": str(message)}:
            if state == "ended":
                raise SessionOver(ended(message[:200]))
            # The same failure answers every later call: it is never started again.
            raise SessionOver(ended(f"It did not start. {message[:200]}"))
    return replace(result, reason=Reason.PROTOCOL_ERROR, detail="The session gave no answer.")


def _read(said: bytes) -> dict[str, JsonValue]:
    try:
        value = read_json(said, max_bytes=64 * 1024)
    except BadJson:
        return {}
    return value if isinstance(value, dict) and value.get("kind") == "done" else {}


def _unclean(closed: Closed) -> str:
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
            seconds = STOP_SECONDS - KILL_SECONDS
            return f"The stop command of a session did not end within {seconds} s."
        case {"state": "unspawned"}:
            return "The stop command of a session could not be started."
        case {"state": "left_over"}:
            return "The folder of a session could not be removed."
    return "A session ended without its stop command."
