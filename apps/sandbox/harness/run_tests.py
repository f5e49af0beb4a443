"""Run a package's unittest suite inside a sandbox and write the counts to descriptor 3.

The tree is copied to the writable workspace, as tests may want to write beside their files. The
counts are a claim of the code under test; whoever reads them decides what they are worth.
"""

import json
import os
import shutil
import socket
import sys
import unittest
from typing import Any

TREE = "/workspace/package"
# A test with a part that failed has failed; one with a part that was done was not skipped.
RANK = ("skipped", "passed", "failed")


class Outcomes:
    """What became of each test, counted once: a part of a test counts for the whole.

    What unittest counts itself is not asked. It counts parts beside tests, and a package may
    replace it in passing.
    """

    def __init__(self) -> None:
        # With the test itself, so that no later one gets its identity.
        self.seen: dict[int, tuple[object, str]] = {}

    def note(self, test: object, word: str) -> None:
        """Take over what became of a test or of a part of it."""
        whole = getattr(test, "test_case", test)
        _, known = self.seen.get(id(whole), (whole, RANK[0]))
        self.seen[id(whole)] = (whole, max(known, word, key=RANK.index))

    def count(self, word: str) -> int:
        """Count the tests that ended so."""
        return sum(one == word for _, one in self.seen.values())

    def failed(self) -> list[str]:
        """Name the tests that failed."""
        return [str(test)[:200] for test, word in self.seen.values() if word == "failed"]


def result_class(outcomes: Outcomes) -> type[unittest.TextTestResult]:
    """Return a class of results that prints like unittest's and notes every outcome."""

    class Result(unittest.TextTestResult):
        def addSuccess(self, test: Any) -> None:
            outcomes.note(test, "passed")
            super().addSuccess(test)

        def addExpectedFailure(self, test: Any, err: Any) -> None:
            outcomes.note(test, "passed")
            super().addExpectedFailure(test, err)

        def addFailure(self, test: Any, err: Any) -> None:
            outcomes.note(test, "failed")
            super().addFailure(test, err)

        def addError(self, test: Any, err: Any) -> None:
            outcomes.note(test, "failed")
            super().addError(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:
            outcomes.note(test, "failed")
            super().addUnexpectedSuccess(test)

        def addSkip(self, test: Any, reason: str) -> None:
            outcomes.note(test, "skipped")
            super().addSkip(test, reason)

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            outcomes.note(test, "passed" if err is None else "failed")
            super().addSubTest(test, subtest, err)

    return Result


def main() -> None:
    """Discover as `python -m unittest` does in the root of the tree, run, and report."""
    channel = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    outcomes = Outcomes()
    runner = unittest.TextTestRunner(
        stream=sys.stderr, verbosity=2, resultclass=result_class(outcomes)
    )
    shutil.copytree("/package", TREE, copy_function=shutil.copyfile)
    os.chdir(TREE)
    sys.path.insert(0, TREE)
    sys.argv = ["python -m unittest"]
    runner.run(unittest.TestLoader().discover(TREE, top_level_dir=TREE))
    report = {
        "ran": len(outcomes.seen),
        "failed": outcomes.count("failed"),
        "skipped": outcomes.count("skipped"),
        "names": outcomes.failed()[:20],
    }
    data = json.dumps(report).encode()
    channel.sendall(len(data).to_bytes(4, "big") + data)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    main()
