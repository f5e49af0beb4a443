"""What was really done, in a file outside the database that only grows."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

FILE_VARIABLE = "KAIZEN_BENCHMARK_EFFECTS"
WRITE = "send_letter"
READ = "look_outside"


class Effects:
    """What was really done: one line for each time, with the call and its mark."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, call: str, mark: str) -> None:
        """Do it: what a crash right afterwards cannot take back."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{call} {mark}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lines(self) -> list[tuple[str, str]]:
        """Return call and mark of everything that was done."""
        if not self.path.exists():
            return []
        return [
            (call, mark)
            for call, _, mark in (line.partition(" ") for line in self.path.read_text().split("\n"))
            if call
        ]

    def by_mark(self) -> Counter[str]:
        """Count what was done by its mark."""
        return Counter(mark for _, mark in self.lines())
