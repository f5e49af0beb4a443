"""A real supervisor of sandboxes for tests, started and asked as in production."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from apps.sandbox.client import run
from apps.sandbox.provision import provide
from apps.sandbox.spec import Limits, SandboxResult, SandboxSpec
from apps.sandboxd.bwrap import find_bubblewrap
from kaizen.supervisor.state import runtime_store

CLONE = Path(__file__).resolve().parents[2]
QUICK = Limits(wall_ms=20_000, cpu_ms=10_000)


class Daemon:
    """One supervisor with folders of its own.

    What it runs is all that is there, unless a test wants it to keep sandboxes ready.
    """

    program: tuple[str, ...] = ("-m", "apps.sandboxd")
    interpreter = sys.executable
    code = CLONE
    uid: int | None = None

    def __init__(self, home: Path, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="daemon-", dir=home))
        self.folder.chmod(0o755)
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)
        self.socket = self.folder / "s.sock"
        self.state = self.folder / "state"
        self.log = self.folder / "log"
        self.home, self._options = home, ("--ready", "0", *options)
        self.process = self._start()
        self._wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [
                    self.interpreter, *self.program, "--socket", str(self.socket),
                    "--state", str(self.state), "--runtime", str(self.home / "runtime"),
                    *self._options,
                ],
                cwd=self.code, env={}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                user=self.uid, group=self.uid, extra_groups=None if self.uid is None else [],
            )  # fmt: skip

    @property
    def as_root(self) -> bool:
        """Tell whether each of its sandboxes has a user id of its own."""
        return os.geteuid() == 0 and self.uid is None

    def restart(self) -> None:
        """Start again after the process ended, on the same folders."""
        self.process = self._start()
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while not self.socket.exists() or b"Listening at" not in self.log.read_bytes():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"sandboxd did not start: {self.log.read_text()}")
            time.sleep(0.02)

    def children(self) -> list[int]:
        """Return the processes below the supervisor; it adopts every orphan of its sandboxes."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            # A thread may end between the listing and the look.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(one) for one in (task / "children").read_text().split()]
        return found

    def descriptors(self) -> int:
        """Return how many descriptors the supervisor holds."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def quiet(self) -> bool:
        """Wait until no process is left below the supervisor; tell whether that came true."""
        until = time.monotonic() + 10
        while self.children():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def run(self, *argv: str, deadline_s: float = 30, **asked: Any) -> SandboxResult:
        """Run one program confined."""
        asked.setdefault("limits", QUICK)
        options = {k: asked.pop(k) for k in ("on_output", "cancelled") if k in asked}
        spec = SandboxSpec(argv=argv, **asked)
        return run(spec, deadline_s=deadline_s, path=self.socket, **options)

    def python(self, source: str, *, limits: Limits = QUICK, **asked: Any) -> SandboxResult:
        """Run a piece of Python confined."""
        wanted = {k: asked.pop(k) for k in list(asked) if k in Limits.__dataclass_fields__}
        files = (*asked.pop("files", ()), ("main.py", textwrap.dedent(source).encode()))
        return self.run(
            "python", "-I", "-S", "/package/main.py",
            files=files, limits=replace(limits, **wanted), **asked,
        )  # fmt: skip

    def told(self, source: str, **asked: Any) -> Any:
        """Run a piece of Python confined and return the JSON that it printed."""
        result = self.python(source, **asked)
        assert result.reason == "ok", (result, self.log.read_text()[-2000:])
        return json.loads(result.stdout)

    def stop(self) -> float:
        """Tell the supervisor to stop; return how many seconds it took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(15)
        return time.monotonic() - started

    def remove(self) -> None:
        """Stop and leave nothing."""
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder)


class BareDaemon(Daemon):
    """A supervisor on a machine where no control group can be made, as for an ordinary user."""

    program = (
        "-c",
        "import sys; from apps.sandboxd import __main__, driver;"
        " driver.find_tree = lambda tag: None; sys.exit(__main__.main())",
    )


class UserDaemon(Daemon):
    """The supervisor of an ordinary user, started by root: it stands on the standard library, so a
    copy that this user can read, run by the sandbox's own Python, is all that it needs.
    """

    uid = 60_650

    def __init__(self, home: Path, *options: str) -> None:
        self.interpreter = str(home / "runtime" / "python")
        self.code = home / "code"
        if not self.code.is_dir():
            without = shutil.ignore_patterns("__pycache__")
            for part in ("apps/sandboxd", "apps/domain"):
                shutil.copytree(CLONE / part, self.code / part, ignore=without)
            shutil.copy(CLONE / "apps/__init__.py", self.code / "apps/__init__.py")
            for one in (self.code, *self.code.rglob("*")):
                one.chmod(0o755 if one.is_dir() else 0o644)
        wrapper = find_bubblewrap(None, home)
        super().__init__(home, "--bwrap", str(wrapper.path), *options)


class UnfilteredDaemon(Daemon):
    """A broken build: every system call passes. Attacks on the filter have to find it open."""

    program = (
        "-c",
        "import struct, sys; from apps.sandboxd import __main__, driver;"
        " driver.build_filter = lambda: struct.pack('=HBBI', 6, 0, 0, 0x7fff0000);"
        " sys.exit(__main__.main())",
    )


def wait_for(true: Callable[[], object]) -> None:
    """Wait until something holds; fail where it does not come true."""
    until = time.monotonic() + 15
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def make_home() -> Path:
    """Make a folder that sandbox users may enter, with the Python and the runtimes in it."""
    home = Path(tempfile.mkdtemp(prefix="kaizen-sandbox-", dir="/var/tmp"))
    home.chmod(0o755)
    provided = provide(home / "runtime", runtime_store())
    assert provided.problems == (), provided.problems
    return home


def as_root() -> bool:
    """Tell whether the supervisor under test drops to a user id of its own for each sandbox."""
    return os.geteuid() == 0
