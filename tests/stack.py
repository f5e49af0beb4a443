"""The real processes, started by the real supervisor in a folder of their own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kaizen.supervisor.processes import dies_with_parent, is_same, started_at
from kaizen.supervisor.state import CLONE

# Patience, no promise: two stacks may start beside everything else on two cores.
START_SECONDS = 180.0
_HIDDEN = ("DATABASE_URL", "REDIS_URL")


class RunningStack:
    """One `manage.py up` with its own database, broker, ports and folder."""

    def __init__(self) -> None:
        self.var = Path(tempfile.mkdtemp(prefix="kaizen-stack-"))
        self.console = self.var / "console.log"
        self._process: subprocess.Popen[bytes] | None = None

    # --- its life

    def start(self) -> None:
        """Start everything and wait until it is ready."""
        process = self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not self.running.get("ready") or self.running["pid"] != process.pid:
            assert process.poll() is None, f"up ended:\n{self.said()}"
            assert time.monotonic() < deadline, f"up is not ready:\n{self.said()}"
            time.sleep(0.05)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the supervisor without waiting for anything."""
        with self.console.open("ab") as console:
            self._process = self.up(stdout=console)
        return self._process

    def up(self, **options: Any) -> subprocess.Popen[bytes]:
        """Run `up` for this folder, hiding the environment of the tests from it."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in _HIDDEN and not name.startswith("KAIZEN_")
        }
        return subprocess.Popen(
            [sys.executable, str(CLONE / "manage.py"), "up", "--var", str(self.var)],
            env=environment,
            cwd=CLONE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGTERM),
            **options,
        )

    def stop(self) -> float:
        """Ask for a stop, wait for it, and return how many seconds it took."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        return time.monotonic() - began

    def kill_supervisor(self) -> None:
        """Kill the supervisor itself, as an out-of-memory killer would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def remove(self) -> None:
        """Stop whatever runs and remove every file."""
        if self.runs:
            self.stop()
        shutil.rmtree(self.var)

    # --- what it says about itself

    @property
    def runs(self) -> bool:
        """Return whether its supervisor runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def running(self) -> dict[str, Any]:
        """Return what the supervisor wrote down about itself."""
        try:
            content: dict[str, Any] = json.loads((self.var / "running.json").read_text())
        except FileNotFoundError:
            return {}
        return content

    @property
    def url(self) -> str:
        """Return where the web server answers."""
        return str(self.running["url"])

    @property
    def sign_ins(self) -> list[dict[str, str]]:
        """Return the demonstration's accounts with their passwords."""
        return list(self.running["sign_ins"])

    @property
    def environment(self) -> dict[str, str]:
        """Return Kaizen's variables as its processes see them, DATABASE_URL among them."""
        content: dict[str, str] = json.loads((self.var / "environment.json").read_text())
        return content

    def said(self) -> str:
        """Return everything that the supervisor has printed."""
        return self.console.read_text()

    # --- its processes

    def pids(self) -> dict[str, int]:
        """Return the process id of each child by its name."""
        return {name: child["pid"] for name, child in self.running["children"].items()}

    def marks(self) -> dict[int, str | None]:
        """Return the ids of all processes with the marks that tell them from later ones."""
        pids = [*self.pids().values(), self.running["pid"]]
        return {pid: started_at(pid) for pid in pids}

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a child a signal and return its process id."""
        pid = self.pids()[name]
        os.kill(pid, number)
        return pid

    def wait_for_new(self, name: str, old: int, *, timeout: float = 20.0) -> int:
        """Wait until the supervisor has replaced a child and return the new process id."""
        deadline = time.monotonic() + timeout
        while (pid := self.pids()[name]) == old:
            assert time.monotonic() < deadline, f"{name} was not replaced:\n{self.said()}"
            time.sleep(0.05)
        return pid

    def manage(self, *arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run one management command inside the environment of the stack."""
        return subprocess.run(
            [sys.executable, str(CLONE / "manage.py"), *arguments],
            env=os.environ | self.environment,
            cwd=CLONE,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def survivors(marks: dict[int, str | None], *, patience: float) -> list[int]:
    """Return which of these processes still live after a while."""
    deadline = time.monotonic() + patience
    while True:
        alive = [pid for pid, mark in marks.items() if is_same(pid, mark)]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.05)
