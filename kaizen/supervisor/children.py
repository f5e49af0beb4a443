"""How is a child process started, watched, restarted and stopped?"""

import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kaizen.supervisor.errors import CannotStart, GaveUp
from kaizen.supervisor.processes import dies_with_parent, signal_group, started_at
from kaizen.supervisor.state import Account

RESTARTS = 5
RESTART_WINDOW = 60.0
_SHORT_LIFE = 2.0
_TAIL_LINES = 8


@dataclass(frozen=True)
class ChildSpec:
    """What to run, as whom, with which environment, and how it likes to be stopped."""

    name: str
    argv: list[str]
    env: Mapping[str, str]
    log: Path
    cwd: Path = Path("/")
    account: Account | None = None
    # Children of a lower rank start first and stop last.
    rank: int = 2
    stop_signal: signal.Signals = signal.SIGTERM
    # What a child receives when its supervisor is killed and nobody can wait for it.
    orphan_signal: signal.Signals = signal.SIGKILL
    before: Callable[[], None] | None = None
    ready: Callable[[], bool] | None = None
    umask: int = 0o077
    pass_fds: tuple[int, ...] = ()


@dataclass
class Child:
    """One running child and the times at which it had to be started again."""

    spec: ChildSpec
    process: subprocess.Popen[bytes]
    started: float
    mark: str | None
    restarts: deque[float] = field(default_factory=deque)
    not_before: float | None = None
    ready: bool = False


def launch(spec: ChildSpec) -> Child:
    """Start one child as the leader of its own session, with nothing but what its spec says."""
    if spec.before is not None:
        spec.before()
    with spec.log.open("ab") as log:
        try:
            process = subprocess.Popen(
                spec.argv,
                env=dict(spec.env),
                cwd=spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Else the terminal's Ctrl-C would hit everything at once, in no order.
                start_new_session=True,
                preexec_fn=dies_with_parent(spec.orphan_signal),
                user=spec.account.uid if spec.account else None,
                group=spec.account.gid if spec.account else None,
                extra_groups=[] if spec.account else None,
                umask=spec.umask,
                pass_fds=spec.pass_fds,
            )
        except OSError as problem:
            raise CannotStart(
                f"{spec.name} cannot start: {problem.strerror} ({spec.argv[0]})."
            ) from None
    return Child(spec, process, time.monotonic(), started_at(process.pid))


def tail(log: Path) -> str:
    """Return the last lines of a log, for the person who has to understand a failure."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "    (no output)"
    return "\n".join(f"    {line[:300]}" for line in lines[-_TAIL_LINES:]) or "    (no output)"


class Crew:
    """The children of one supervisor, in the order in which they were started."""

    def __init__(self, *, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._say = say
        self._changed = changed
        self._children: list[Child] = []

    @property
    def children(self) -> list[Child]:
        """Return the children that were started and not stopped."""
        return list(self._children)

    def start(self, spec: ChildSpec) -> Child:
        """Start a child and keep an eye on it from now on."""
        child = launch(spec)
        self._children.append(child)
        self._changed()
        return child

    def run(self, spec: ChildSpec, pulse: Callable[[], None]) -> None:
        """Run one step of the start to its end, and refuse to go on if it fails."""
        step = launch(spec)
        try:
            while step.process.poll() is None:
                pulse()
        finally:
            signal_group(step.process.pid, signal.SIGKILL)
            code = step.process.wait()
        if code != 0:
            raise CannotStart(
                f"{spec.name} failed ({_cause(code)}); its last words, from {spec.log}:\n"
                f"{tail(spec.log)}"
            )

    def unready(self) -> list[str]:
        """Return the names of children that cannot do their work yet, asking each until it can."""
        for child in self._children:
            child.ready = child.ready or child.spec.ready is None or child.spec.ready()
        return [child.spec.name for child in self._children if not child.ready]

    def demand_alive(self) -> None:
        """Refuse to go on starting when a child is already dead."""
        for child in self._children:
            code = child.process.poll()
            if code is not None:
                raise CannotStart(
                    f"{child.spec.name} ended during the start ({_cause(code)}); its last words, "
                    f"from {child.spec.log}:\n{tail(child.spec.log)}"
                )

    def look(self) -> None:
        """Restart whatever died since the last look, or give up on a child that keeps dying."""
        for child in self._children:
            code = child.process.poll()
            if code is None:
                continue
            now = time.monotonic()
            if child.not_before is None:
                self._mourn(child, code, now)
            if child.not_before is not None and now >= child.not_before:
                self._revive(child)

    def _mourn(self, child: Child, code: int, now: float) -> None:
        while child.restarts and now - child.restarts[0] > RESTART_WINDOW:
            child.restarts.popleft()
        if len(child.restarts) >= RESTARTS:
            raise GaveUp(
                f"{child.spec.name} died {RESTARTS + 1} times within a minute, the last time "
                f"{_cause(code)}, so everything stops. Its last words, from {child.spec.log}:\n"
                f"{tail(child.spec.log)}"
            )
        child.restarts.append(now)
        # A child that died at once gets a moment, so that what it misses can come back.
        child.not_before = now + (1.0 if now - child.started < _SHORT_LIFE else 0.0)
        self._say(f"{child.spec.name} ended ({_cause(code)}); starting it again.")
        signal_group(child.process.pid, signal.SIGKILL)

    def _revive(self, child: Child) -> None:
        fresh = launch(child.spec)
        child.process, child.started, child.mark = fresh.process, fresh.started, fresh.mark
        child.not_before = None
        self._changed()

    def stop(self, patience: Mapping[int, float]) -> None:
        """Stop everything in reverse order of rank, and kill what outstays its patience."""
        for rank in sorted({child.spec.rank for child in self._children}, reverse=True):
            members = [child for child in reversed(self._children) if child.spec.rank == rank]
            for child in members:
                if child.process.poll() is None:
                    child.process.send_signal(child.spec.stop_signal)
            deadline = time.monotonic() + patience[rank]
            for child in members:
                try:
                    child.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    self._say(f"{child.spec.name} did not stop in time; killing it.")
                # The leader may be gone while something that it started is not.
                signal_group(child.process.pid, signal.SIGKILL)
                child.process.wait()
        self._children.clear()


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
