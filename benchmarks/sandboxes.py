"""A supervisor of sandboxes for benchmarks that ask it directly, and what it could leave behind."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from apps.sandbox.provision import provide
from benchmarks.harness import CLONE, BenchmarkFailed
from kaizen.supervisor.state import runtime_store

# Nobody else's sandboxes run under these, so whatever does is ours.
FIRST_UID = 61_500
UIDS = 48
JOBS = 8


@dataclass(frozen=True, slots=True)
class Remains:
    """What is still there of sandboxes that are over."""

    processes: int
    mounts: int
    groups: int
    folders: int
    memory_files: int

    @property
    def total(self) -> int:
        """Return how many things there are in all."""
        return self.processes + self.mounts + self.groups + self.folders + self.memory_files


class Supervisor:
    """One sandboxd with folders of its own, which can be killed and started again."""

    def __init__(self, *program: str) -> None:
        self._program = program or ("-m", "apps.sandboxd")
        self.home = Path(tempfile.mkdtemp(prefix="kaizen-leftovers-", dir="/var/tmp"))
        self.home.chmod(0o755)
        self.socket = self.home / "s.sock"
        self._log = self.home / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Supervisor:
        """Provide the runtimes and start."""
        provide(self.home / "runtime", runtime_store())
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop and remove every folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(20)
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self) -> None:
        """Start, or start again on the same folders, and wait until it listens."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, *self._program, "--socket", str(self.socket),
                    "--state", str(self.home / "state"), "--runtime", str(self.home / "runtime"),
                    "--uid-range", f"{FIRST_UID}:{UIDS}", "--jobs", str(JOBS),
                ],
                cwd=CLONE, env={}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        until = time.monotonic() + 60
        while b"Listening at" not in self._log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > until:
                raise BenchmarkFailed(f"sandboxd did not start: {self._log.read_text()[-1000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it as the kernel would for want of memory."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def remains(self, mark: str) -> Remains:
        """Count what is left of calls whose environment held this mark."""
        return Remains(
            processes=sum(self._is_ours(one, mark) for one in Path("/proc").glob("[0-9]*")),
            # A sandbox's mounts are its own; one that shows here would be the host's from now on.
            mounts=sum(str(self.home) in line for line in Path("/proc/mounts").open()),
            groups=len(self.groups()),
            folders=len(self._folders()),
            memory_files=self._memory_files(),
        )

    def _is_ours(self, process: Path, mark: str) -> bool:
        try:
            status = (process / "status").read_text()
            uid = int(status.split("Uid:")[1].split()[0])
            parent = int(status.split("PPid:")[1].split()[0])
            environment = (process / "environ").read_bytes()
        except (OSError, IndexError):
            return False  # it ended meanwhile, or is another user's
        ours = self._process is not None and parent == self._process.pid
        return ours or FIRST_UID <= uid < FIRST_UID + UIDS or mark.encode() in environment

    def groups(self) -> list[Path]:
        """Return the control groups of calls that are there."""
        tag = hashlib.sha256(str((self.home / "state").resolve()).encode()).hexdigest()[:12]
        return list(Path("/sys/fs/cgroup").glob(f"**/kaizen-{tag}/call-*"))

    def _folders(self) -> list[Path]:
        """Return what lies in the supervisor's folders beside what it keeps on purpose."""
        kept = ("sandboxd.lock", "bwrap-")
        return [one for one in (self.home / "state").iterdir() if not one.name.startswith(kept)]

    def _memory_files(self) -> int:
        """Count the memory files that the supervisor still holds: each call brings several."""
        held = 0
        if self._process is None:
            return held
        for one in Path(f"/proc/{self._process.pid}/fd").iterdir():
            try:
                held += "memfd:" in str(one.readlink())
            except OSError:
                continue  # closed meanwhile
        return held


def as_root() -> bool:
    """Tell whether sandboxes get user ids of their own."""
    return os.geteuid() == 0
