"""What do all benchmarks share? Real processes, partners that measure, and the closing line.

A benchmark is run as `python -m benchmarks.NAME [--quick]`. It starts everything as `make up` does,
in a folder of its own and with durability on, prints what it saw, and ends with one JSON line
`{"benchmark": NAME, "figures": {...}, "ok": true|false}`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from kaizen.supervisor.throwaway import Throwaway

CLONE = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0


class BenchmarkFailed(Exception):
    """The measurement itself broke; there are no figures."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found, and whether every claim of absence held."""

    figures: dict[str, float | int]
    ok: bool


def main(name: str, measure: Callable[[bool], Report]) -> int:
    """Run one benchmark from the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--quick", action="store_true", help="fewer samples, the same path")
    options = parser.parse_args()
    try:
        report = measure(options.quick)
    except BenchmarkFailed as problem:
        say(str(problem))
        report = Report({}, ok=False)
    print(json.dumps({"benchmark": name, "figures": report.figures, "ok": report.ok}), flush=True)
    return 0 if report.ok else 1


def say(message: str) -> None:
    """Print a line for the person who watches."""
    print(message, flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    if not values:
        raise BenchmarkFailed("There is nothing to measure: no sample arrived.")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def free_port() -> int:
    """Return a loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Processes:
    """Partners and web servers beside the stores, gone without a trace afterwards."""

    def __init__(self) -> None:
        self.var = Path(tempfile.mkdtemp(prefix="kaizen-benchmark-"))
        self._children: list[subprocess.Popen[Any]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of Kaizen's own processes."""
        raise NotImplementedError

    def partner(self, module: str, *arguments: str) -> Partner:
        """Start a process that answers one JSON line with another."""
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=self.environment,
            cwd=CLONE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._children.append(process)
        return Partner(process, module)

    def serve(self, application: str) -> int:
        """Start one web server as the product starts its own, and return its port."""
        port = free_port()
        with (self.var / f"server-{port}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "uvicorn", application, "--port", str(port),
                    "--lifespan", "off", "--ws-per-message-deflate", "false",
                    "--timeout-graceful-shutdown", "5", "--no-access-log",
                    "--log-level", "warning",
                ],
                env=self.environment,
                cwd=CLONE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._children.append(process)
        deadline = time.monotonic() + START_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            if process.poll() is not None or time.monotonic() > deadline:
                said = (self.var / f"server-{port}.log").read_text(errors="replace")[-2000:]
                raise BenchmarkFailed(f"{application} did not start:\n{said}")
            time.sleep(0.05)

    def manage(self, *arguments: str, timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
        """Run one management command."""
        return subprocess.run(
            [sys.executable, str(CLONE / "manage.py"), *arguments],
            env=self.environment,
            cwd=CLONE,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _stop_children(self) -> None:
        for process in self._children:
            if process.poll() is None:
                process.terminate()
        for process in self._children:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Stores(Processes):
    """PostgreSQL and Valkey alone, with durability on and every migration applied.

    For a benchmark that is itself the worker: nobody else looks at the rows.
    """

    def __init__(self) -> None:
        super().__init__()
        for name in ("DATABASE_URL", "REDIS_URL"):
            os.environ.pop(name, None)
        self._stores = Throwaway(durable=True)
        # Once: every time it is asked, it makes up other keys.
        self._addresses = self._stores.environment()

    def __enter__(self) -> Stores:
        """Start both and migrate."""
        try:
            self._stores.start()
            migrated = self.manage("migrate", "--no-input", "-v", "0")
            if migrated.returncode:
                raise BenchmarkFailed(f"The migrations failed:\n{migrated.stderr[-2000:]}")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything, partners and servers first."""
        self._stop()

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment that the settings load from."""
        return {
            **os.environ,
            **self._addresses,
            "KAIZEN_ALLOWED_HOSTS": "127.0.0.1",
            "KAIZEN_INSECURE_HTTP": "1",
            "KAIZEN_REHEARSAL": "1",
            "KAIZEN_LOG_LEVEL": "ERROR",
            "KAIZEN_API_PER_MINUTE": "1000000",
            "DJANGO_SETTINGS_MODULE": "kaizen.settings",
        }

    def _stop(self) -> None:
        self._stop_children()
        self._stores.stop()
        shutil.rmtree(self.var, ignore_errors=True)


class Stack(Processes):
    """Every process of Kaizen, started by its own supervisor, gone without a trace afterwards."""

    def __init__(self, *up: str) -> None:
        super().__init__()
        # What starts everything: the product's own command, or a benchmark's variant of it.
        self._up = up or (str(CLONE / "manage.py"), "up")
        # Variables of the benchmark's own, for every process.
        self.extra: dict[str, str] = {}
        self._console = self.var / "console.log"
        self._supervisor: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stack:
        """Start everything and wait until it is ready."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("DATABASE_URL", "REDIS_URL") and not name.startswith("KAIZEN_")
        } | self.extra
        with self._console.open("wb") as console:
            self._supervisor = subprocess.Popen(
                [sys.executable, *self._up, "--var", str(self.var)],
                env=environment,
                cwd=CLONE,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.running.get("ready"):
            if self._supervisor.poll() is not None or time.monotonic() > deadline:
                said = self._console.read_text(errors="replace")[-2000:]
                self._stop()
                raise BenchmarkFailed(f"Kaizen did not start:\n{said}")
            time.sleep(0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything, partners and servers first."""
        self._stop()

    def cpu_seconds(self) -> float:
        """Return the CPU time that web, database, broker and this client have taken so far."""
        ours = {
            child["pid"]
            for name, child in self.running["children"].items()
            if name.startswith(("web", "postgres", "valkey"))
        }
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                # After the name, which may hold anything: state, parent, …
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                # It ended meanwhile.
                continue
            if ours & {int(stat.parent.name), int(fields[1])}:
                ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()

    @property
    def url(self) -> str:
        """Return where the web server answers."""
        return str(self.running["url"])

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of Kaizen's own processes."""
        ours: dict[str, str] = json.loads((self.var / "environment.json").read_text())
        return {**os.environ, **ours, "DJANGO_SETTINGS_MODULE": "kaizen.settings"}

    @property
    def running(self) -> dict[str, Any]:
        """Return what the supervisor wrote down about its processes."""
        try:
            content: dict[str, Any] = json.loads((self.var / "running.json").read_text())
        except FileNotFoundError:
            return {}
        return content

    def said(self) -> str:
        """Return the end of what the supervisor printed."""
        return self._console.read_text(errors="replace")[-4000:]

    def _stop(self) -> None:
        self._stop_children()
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.send_signal(signal.SIGTERM)
            self._supervisor.wait(60)
        shutil.rmtree(self.var, ignore_errors=True)


class Partner:
    """A process beside the benchmark that does as it is asked, one JSON line at a time."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name

    def ask(self, what: str, **details: Any) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise BenchmarkFailed(f"{self._name} has no pipes.")
        stdin.write(json.dumps({"what": what, **details}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise BenchmarkFailed(f"{self._name} ended while it was asked to {what}.")
        answer: dict[str, Any] = json.loads(line)
        return answer
