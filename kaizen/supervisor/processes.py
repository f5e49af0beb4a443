"""Which processes are alive, and are they still the ones that we started?"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ON_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if ON_LINUX else None


def started_at(pid: int) -> str | None:
    """Return a mark that tells a process from a later one with the same id; None if it is gone."""
    if ON_LINUX:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # A zombie has ended: only its parent has not looked yet.
        return None if fields[0] in {"Z", "X"} else fields[19]
    answer = subprocess.run(
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None


def is_same(pid: int, mark: str | None) -> bool:
    """Tell whether the process of that id and mark still lives."""
    return mark is not None and started_at(pid) == mark


def living_in(directory: Path) -> list[int]:
    """Return the processes whose working directory is this one, such as PostgreSQL's backends."""
    if not ON_LINUX:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                place = Path(os.readlink(entry / "cwd"))
            except OSError:
                # Gone meanwhile, or someone else's: neither is ours.
                continue
            if place == directory and started_at(int(entry.name)) is not None:
                found.append(int(entry.name))
    return found


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the whole session that a child leads, as far as any of it is left."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # PermissionError is macOS's answer for a group of zombies only.
        return


def end(pids: list[int], *, patience: float) -> None:
    """Wait for processes to end by themselves, then kill what is left of them."""
    marks = {pid: started_at(pid) for pid in pids}
    deadline = time.monotonic() + patience
    while any(is_same(pid, mark) for pid, mark in marks.items()):
        if time.monotonic() > deadline:
            for pid, mark in marks.items():
                if is_same(pid, mark):
                    os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + patience
        time.sleep(0.05)


def dies_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Return the step that makes a new child receive a signal when its supervisor is gone."""
    if _libc is None:
        return None
    libc, supervisor = _libc, os.getpid()

    def bind() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != supervisor:
            # The supervisor died before the line above took effect.
            os.kill(os.getpid(), signal.SIGKILL)

    return bind
