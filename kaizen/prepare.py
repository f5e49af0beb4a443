"""What happens between the stores and the programs at each start, in one process to be quick?

Migrate, put the sandbox's runtime in place, and seed the demonstration; each is done once and
found done the next time. The demonstration's sign-ins go to a private file.
"""

import argparse
import io
import os
from pathlib import Path

import django
from django.core.management import call_command


def main() -> None:
    """Prepare the database and the machine for the programs."""
    parser = argparse.ArgumentParser(prog="kaizen.prepare", description=__doc__)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
    django.setup()
    from apps.sandbox.runtime import provision_runtime

    call_command("migrate", interactive=False, verbosity=0)
    provision_runtime(options.runtime)
    output = io.StringIO()
    call_command("seed_demo", stdout=output)
    descriptor = os.open(options.report, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as report:
        report.write(output.getvalue().strip().splitlines()[-1])


if __name__ == "__main__":
    main()
