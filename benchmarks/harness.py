"""What do all benchmarks share? Real processes, plain percentiles, one JSON line at the end."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLONE = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Running:
    """A whole Kaizen of its own, started as `make up` starts it, durability included."""

    url: str
    passwords: Mapping[str, str]
    environment: Mapping[str, str]


def options(description: str | None) -> argparse.Namespace:
    """Read the arguments that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a shorter run, for a first look")
    return parser.parse_args()


@contextmanager
def kaizen() -> Iterator[Running]:
    """Run Kaizen in a folder of its own for the length of the block."""
    var = Path(tempfile.mkdtemp(prefix="kaizen-bench-"))
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("KAIZEN_") and name not in ("DATABASE_URL", "REDIS_URL")
    }
    process = subprocess.Popen(
        [sys.executable, str(CLONE / "manage.py"), "up", "--var", str(var)],
        cwd=CLONE,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield _wait(process, var)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(var)


def _wait(process: subprocess.Popen[bytes], var: Path) -> Running:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit("Kaizen ended during its start.")
        running = _read(var / "running.json")
        if running.get("ready"):
            return Running(
                url=running["url"],
                passwords={e["username"]: e["password"] for e in running["sign_ins"]},
                environment=_read(var / "environment.json"),
            )
        time.sleep(0.1)
    raise SystemExit(f"Kaizen was not ready within {START_SECONDS:.0f} s.")


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which so many percent of all values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def finish(name: str, figures: Mapping[str, Any], *, ok: bool) -> None:
    """Print the figures for people, then the one line for programs, and exit."""
    for figure, value in figures.items():
        print(f"  {figure:<22} {value}")
    print(json.dumps({"benchmark": name, "figures": dict(figures), "ok": ok}), flush=True)
    sys.exit(0 if ok else 1)
