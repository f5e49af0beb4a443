"""Which files does one process of a spread run take together? Those that share a whole stack.

A stack is six programs and a fresh database. Each process that needs one starts its own, so the
files that share it are one unit of work; every other file is a unit by itself.
"""

import pytest
from xdist.scheduler import LoadFileScheduling

SHARED = {
    "tests/examples/test_examples.py": "running_stack",
    "tests/journeys/test_automations.py": "running_stack",
    "tests/journeys/test_changes.py": "running_stack",
    "tests/journeys/test_first_light.py": "running_stack",
    "tests/journeys/test_metrics.py": "running_stack",
    "tests/journeys/test_kills.py": "mortal_stack",
    "tests/supervisor/test_up.py": "mortal_stack",
}
"""The files by the fixture of which they share one stack."""


class Together(LoadFileScheduling):
    """A file's tests stay together, and so do the files that share a stack."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SHARED.get(file, file)


def demand_shared(items: list[pytest.Item]) -> None:
    """Refuse a file that uses a shared stack without being named above: a second would start."""
    stacks = set(SHARED.values())
    for item in items:
        file = item.nodeid.partition("::")[0]
        for stack in stacks & set(getattr(item, "fixturenames", ())):
            if SHARED.get(file) != stack:
                raise pytest.UsageError(f"{file} uses {stack}: name it in tests/spread.py.")
