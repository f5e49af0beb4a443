"""What happens between the stores and the programs at each start, in one process to be quick?

Migrate, put the sandbox's runtimes in place, and seed the demonstration; each is done once and
found done the next time. What the supervisor needs to know about it goes to a private file.
"""

import argparse
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command


def main() -> None:
    """Prepare the database and the machine for the programs."""
    parser = argparse.ArgumentParser(prog="kaizen.prepare", description=__doc__)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    report = provide_runtimes(options.runtime, options.store) | seed()
    descriptor = os.open(options.report, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(report, file)


def provide_runtimes(target: Path, store: Path) -> dict[str, Any]:
    """Put the sandbox's Python and the installed runtimes in place, or say what is missing."""
    from apps.sandbox.provision import provide
    from apps.sandbox.runtime import NoRuntime

    if sys.platform != "linux":
        return {"runtime": None, "problems": ["Code runs in the sandbox on Linux only."]}
    target.mkdir(mode=0o755, exist_ok=True)
    try:
        # What is to be installed was, by `make venv`: a start never waits for packages.
        provided = provide(target, store, install=False)
    except NoRuntime as problem:
        return {"runtime": None, "problems": [f"No sandbox here: {problem}"]}
    return {"runtime": str(target), "problems": list(provided.problems)}


def seed() -> dict[str, Any]:
    """Seed the demonstration and return the last line of what the command says: its sign-ins."""
    output = io.StringIO()
    call_command("seed_demo", stdout=output)
    said: dict[str, Any] = json.loads(output.getvalue().strip().splitlines()[-1])
    return {"sign_ins": said["sign_ins"]}


if __name__ == "__main__":
    main()
