"""Launch one sandbox in five steps and hold its handles until all of it is dead."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from apps.sandboxd.bwrap import Bubblewrap
from apps.sandboxd.cgroups import CallGroup, GroupTree
from apps.sandboxd.egress_inside import NoWayIn, open_egress
from apps.sandboxd.egress_route import Routes
from apps.sandboxd.jobs import SandboxSpec
from apps.sandboxd.layout import GATE, PRLIMIT, Descriptors, Layout, arguments
from apps.sandboxd.limits import Limits, process_limits
from apps.sandboxd.live import DEATH_SECONDS, LiveSandbox, close_all, is_ready
from apps.sandboxd.uids import UidPool

_log = logging.getLogger(__name__)

RESULT_FD: Final = 3
_LAUNCH_SECONDS: Final = 15.0


class LaunchFailed(RuntimeError):
    """The confinement did not come up; `said` is what bubblewrap wrote."""

    def __init__(self, sentence: str, said: str = "", exit_code: int | None = None) -> None:
        super().__init__(sentence)
        self.said = said
        self.exit_code = exit_code


class Launcher:
    """Fork every sandbox from one thread that lives as long as the supervisor.

    A sandbox dies with the *thread* that started it, so a short-lived one would take it along.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")
        # The result channel has to be descriptor 3 inside, so that number is kept occupied here.
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        if self._null != RESULT_FD:
            try:
                os.fstat(RESULT_FD)
            except OSError:
                os.dup2(self._null, RESULT_FD, inheritable=False)
            else:
                raise RuntimeError(f"Descriptor {RESULT_FD} is taken; start the supervisor clean.")

    def spawn(
        self,
        command: Sequence[str],
        *,
        streams: tuple[int, int, int],
        result: int,
        passed: Sequence[int],
        uid: int | None,
        name: str = "",
    ) -> subprocess.Popen[bytes]:
        """Start a program with exactly these descriptors and, as root, under another user id.

        Until it starts another, it may bear a name of its own in the list of processes.
        """

        def fork() -> subprocess.Popen[bytes]:
            if uid is None and os.geteuid() == 0:
                raise LaunchFailed("The supervisor never runs bubblewrap as root.")
            os.dup2(result, RESULT_FD, inheritable=False)
            try:
                return subprocess.Popen(
                    [name or command[0], *command[1:]],
                    executable=command[0],
                    stdin=streams[0],
                    stdout=streams[1],
                    stderr=streams[2],
                    pass_fds=(RESULT_FD, *passed),
                    env={},
                    cwd="/",
                    user=uid,
                    group=uid,
                    extra_groups=None if uid is None else [],
                    start_new_session=True,
                    umask=0o022,
                )
            finally:
                if self._null == RESULT_FD:
                    fresh = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
                    os.dup2(fresh, RESULT_FD, inheritable=False)
                    os.close(fresh)
                else:
                    os.dup2(self._null, RESULT_FD, inheritable=False)

        return self._thread.submit(fork).result()


@dataclass(frozen=True, slots=True)
class Host:
    """What a launch needs from the machine, found once at start."""

    bubblewrap: Bubblewrap
    layout: Layout
    seccomp: bytes
    launcher: Launcher
    uids: UidPool | None
    groups: GroupTree | None
    routes: Routes
    name: str
    """What a launch is called before it starts its program."""


def launch(host: Host, spec: SandboxSpec, limits: Limits) -> LiveSandbox:
    """Bring up the confinement up to the gate; raise LaunchFailed with all cleaned up."""
    if spec.dependencies and host.layout.dependencies(spec.dependencies) is None:
        raise LaunchFailed("The dependencies that the job names are not installed here.")
    uid = host.uids.borrow() if host.uids is not None else None

    def give_back() -> None:
        if uid is not None and host.uids is not None:
            host.uids.give_back(uid)

    try:
        group = host.groups.make(f"call-{secrets.token_hex(8)}", limits) if host.groups else None
    except OSError as problem:
        give_back()
        raise LaunchFailed(f"No control group could be made: {problem.strerror}.") from problem
    try:
        if host.groups is not None:
            host.groups.hasten()
        return _Launch(host, spec, limits, uid, group, give_back).run()
    except BaseException:
        if group is not None:
            group.remove()
        give_back()
        raise


@dataclass(slots=True)
class _Launch:
    host: Host
    spec: SandboxSpec
    limits: Limits
    uid: int | None
    group: CallGroup | None
    give_back: Callable[[], None]
    until: float = field(default_factory=lambda: time.monotonic() + _LAUNCH_SECONDS)
    ours: list[int] = field(default_factory=list)
    theirs: list[int] = field(default_factory=list)
    born: tuple[int, int] | None = None

    def run(self) -> LiveSandbox:
        memory = Descriptors()
        result, result_inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        process: subprocess.Popen[bytes] | None = None
        try:
            # 1. Spawn, with everything bubblewrap needs in memory files.
            info, info_inside = self._pipe(reads=True)
            block, block_inside = self._pipe(reads=False)
            stdin, stdin_inside = self._pipe(reads=False)
            stdout, stdout_inside = self._pipe(reads=True)
            stderr, stderr_inside = self._pipe(reads=True)
            options = arguments(self.host.layout, self.spec, self.limits, memory)
            options += ["--info-fd", str(info_inside), "--block-fd", str(block_inside)]
            options += ["--seccomp", memory.memory(self.host.seccomp)]
            listed = memory.memory("\0".join(options).encode() + b"\0")
            process = self.host.launcher.spawn(
                [
                    str(self.host.bubblewrap.path),
                    "--args",
                    listed,
                    "--",
                    PRLIMIT,
                    *process_limits(self.limits),
                    *(() if self.spec.waits else GATE),
                    *self.spec.argv,
                ],
                streams=(stdin_inside, stdout_inside, stderr_inside),
                result=result_inside.fileno(),
                passed=[info_inside, block_inside, *memory.numbers],
                uid=self.uid,
                name=self.host.name,
            )
            self._drop(*self.theirs)
            result_inside.close()
            memory.close()
            outer_fd = self._keep(os.pidfd_open(process.pid))
            # 2. Learn the first process of the namespace, confine it further, release it.
            init_pid = self._init_pid(info, stderr, process)
            init_fd = self._keep(os.pidfd_open(init_pid))
            self.born = (init_pid, init_fd)
            if self.group is not None:
                self.group.attach(init_pid)
            os.write(block, b"x")
            self._drop(info, block)
            # 3. The gate byte: mounts and limits are final, and no program has run.
            if not is_ready(stdout, self.until) or os.read(stdout, 1) != b".":
                raise self._failure("The sandbox did not come up.", stderr, process)
            live = LiveSandbox(
                process, outer_fd, init_pid, init_fd, stdin, stdout, stderr, result,
                self.group, self.uid, self.give_back,
            )  # fmt: skip
            # 4. Doors to what will be watched and collected; files into the workspace.
            self._open_places(live)
            live.stage(self.spec.workspace)
            for number in (stdin, stdout, stderr):
                os.set_blocking(number, False)
            result.setblocking(False)
            if self.spec.network:
                live.egress = open_egress(
                    network=self.spec.network,
                    routes=self.host.routes,
                    init_pid=init_pid,
                    uid=self.uid,
                )
            return live
        except BaseException as problem:
            memory.close()
            result.close()
            result_inside.close()
            if process is not None:
                self._undo(process)
            self._drop(*self.ours, *self.theirs)
            if isinstance(problem, OSError):
                raise LaunchFailed(f"The launch failed: {problem.strerror}.") from problem
            if isinstance(problem, NoWayIn):
                raise LaunchFailed(str(problem)) from problem
            raise

    def _undo(self, process: subprocess.Popen[bytes]) -> None:
        """Leave no process of a launch that failed half-way."""
        process.kill()
        process.wait()
        if self.born is None:
            return
        init_pid, init_fd = self.born
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(init_fd, signal.SIGKILL)
        is_ready(init_fd, time.monotonic() + DEATH_SECONDS)
        with suppress(ChildProcessError):
            os.waitpid(init_pid, os.WNOHANG)

    def _pipe(self, *, reads: bool) -> tuple[int, int]:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        mine, inside = (reader, writer) if reads else (writer, reader)
        self.ours.append(mine)
        self.theirs.append(inside)
        return mine, inside

    def _keep(self, number: int) -> int:
        self.ours.append(number)
        return number

    def _drop(self, *numbers: int) -> None:
        for number in numbers:
            close_all(number)
            for owner in (self.ours, self.theirs):
                if number in owner:
                    owner.remove(number)

    def _init_pid(self, info: int, stderr: int, process: subprocess.Popen[bytes]) -> int:
        text = b""
        while b"}" not in text and len(text) < 4096:
            if not is_ready(info, self.until):
                raise self._failure("Bubblewrap did not start in time.", stderr, process)
            more = os.read(info, 4096)
            if not more:
                raise self._failure("Bubblewrap refused to start.", stderr, process)
            text += more
        return int(json.loads(text)["child-pid"])

    def _failure(
        self, sentence: str, stderr: int, process: subprocess.Popen[bytes]
    ) -> LaunchFailed:
        try:
            code: int | None = process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        os.set_blocking(stderr, False)
        said = b""
        with suppress(BlockingIOError):
            said = os.read(stderr, 4096)
        text = said.decode("utf-8", "replace").strip()
        _log.warning("Launch failed (exit %s): %s", code, text[:500])
        return LaunchFailed(sentence, text[:500], code)

    def _open_places(self, live: LiveSandbox) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        root = f"/proc/{live.init_pid}/root"
        live.proc = self._keep(os.open(f"{root}/proc", flags))
        for place in ("workspace", "tmp", "dev/shm"):
            live.writable.append(self._keep(os.open(f"{root}/{place}", flags)))
        live.terminals = self._keep(os.open(f"{root}/dev/pts", flags))
        # Holding these keeps the file systems alive after the sandbox is dead.
        live.workspace = live.writable[0]
