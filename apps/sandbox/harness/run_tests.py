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

TREE = "/workspace/package"


def main() -> None:
    """Discover as `python -m unittest` does in the root of the tree, run, and report."""
    channel = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    shutil.copytree("/package", TREE, copy_function=shutil.copyfile)
    os.chdir(TREE)
    sys.path.insert(0, TREE)
    sys.argv = ["python -m unittest"]
    suite = unittest.TestLoader().discover(TREE, top_level_dir=TREE)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(suite)
    bad = [*result.failures, *result.errors]
    report = {
        "ran": result.testsRun,
        "failed": len(bad) + len(result.unexpectedSuccesses),
        "skipped": len(result.skipped),
        "names": [case.id()[:200] for case, _ in bad[:20]],
    }
    data = json.dumps(report).encode()
    channel.sendall(len(data).to_bytes(4, "big") + data)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
