"""Which attacks on the sandbox hold? The whole table against real supervisors.

Started as root, every attack on the walls runs twice: against a supervisor of root's, and against
one of an ordinary user. Finally those that only the filter of system calls stops run against a
build without it, and have to be found open.

    python -m benchmarks.attacks [--quick]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree  # what pytest wrote for us a moment ago

from benchmarks.attacks.table import BEHIND_THE_FILTER, TABLE
from benchmarks.harness import CLONE, BenchmarkFailed, Report, main, say

_PATIENCE = 1500


@dataclass(slots=True)
class Seen:
    """How the variants of one test ended."""

    held: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)


def measure(quick: bool) -> Report:
    """Attack every wall, then attack a build that lacks one."""
    rows = {row.number: row.tests[:1] if quick else row.tests for row in TABLE}
    seen = _run(sorted({test for tests in rows.values() for test in tests}))
    held = accepted = opened = 0
    for row in TABLE:
        failed = [name for test in rows[row.number] for name in seen[test].failed]
        passed = sum(seen[test].held for test in rows[row.number])
        if not failed and passed:
            held += 1
        elif row.accepted:
            accepted += 1
            say(f"accepted {row.number:2} {row.title}: {row.accepted}")
        else:
            opened += 1
            say(f"OPEN     {row.number:2} {row.title}: {', '.join(failed) or 'nothing ran'}")
    variants = [name for one in seen.values() for name in one.failed]
    say(f"{held} of {len(TABLE)} attacks held, in {sum(one.held for one in seen.values())} tests")

    behind = {n: rows[n] for n in BEHIND_THE_FILTER}
    broken = _run(sorted({test for tests in behind.values() for test in tests}), on="unfiltered")
    found = sum(any(broken[test].failed for test in tests) for tests in behind.values())
    say(f"Without the filter of system calls, {found} of {len(behind)} are found open")
    figures: dict[str, float | int] = {
        "held": held,
        "open": opened,
        "accepted": accepted,
        "tests": sum(one.held for one in seen.values()) + len(variants),
        "as_root": int(os.geteuid() == 0),
        "open_when_broken": found,
    }
    return Report(figures, ok=not opened and found > 0)


def _run(tests: list[str], *, on: str = "") -> dict[str, Seen]:
    """Run tests by name and return how each of them ended, all variants together."""
    with tempfile.TemporaryDirectory(prefix="kaizen-attacks-") as folder:
        written = Path(folder) / "tests.xml"
        environment = {k: v for k, v in os.environ.items() if k != "KAIZEN_ATTACKS_ON"}
        ended = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                f"--junitxml={written}", "-o", "junit_family=xunit1", *tests,
            ],
            env=environment | ({"KAIZEN_ATTACKS_ON": on} if on else {}),
            cwd=CLONE, capture_output=True, text=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
        if ended.returncode not in (0, 1) or not written.is_file():
            raise BenchmarkFailed(f"The attacks did not run:\n{ended.stdout[-3000:]}")
        cases = ElementTree.parse(written).getroot().iter("testcase")  # noqa: S314 - as above
        seen: dict[str, Seen] = defaultdict(Seen)
        for case in cases:
            name = case.get("name", "")
            one = seen[f"{case.get('file')}::{name.partition('[')[0]}"]
            if case.find("failure") is not None or case.find("error") is not None:
                one.failed.append(name)
            elif case.find("skipped") is not None:
                one.skipped += 1
            else:
                one.held += 1
        return seen


if __name__ == "__main__":
    sys.exit(main("attacks", measure))
