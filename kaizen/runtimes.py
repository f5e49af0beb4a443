"""Install the pinned runtimes of sandboxes for this clone, before anything starts.

What cannot be installed is said in one sentence, and only what needs it is not offered later.
"""

import argparse
import sys

from apps.sandbox.provision import provide
from apps.sandbox.runtime import NoRuntime
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.state import open_layout, runtime_store


def main() -> None:
    """Bring the runtimes in place; a second time finds all of them there."""
    parser = argparse.ArgumentParser(prog="python -m kaizen.runtimes", description=__doc__)
    parser.add_argument("--where", action="store_true", help="only say where they are linked")
    if parser.parse_args().where:
        sys.stdout.write(f"{open_layout().home / 'runtime'}\n")
        return
    if sys.platform != "linux":
        return
    try:
        target = open_layout().home / "runtime"
        target.mkdir(mode=0o755, exist_ok=True)
        problems = provide(target, runtime_store()).problems
    except (NoRuntime, CannotStart) as problem:
        problems = (str(problem),)
    for sentence in problems:
        sys.stderr.write(f"{sentence}\n  What needs it will not be offered; the rest works.\n")


if __name__ == "__main__":
    main()
