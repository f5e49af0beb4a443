#!/usr/bin/env python3
"""How does an operator talk to Kaizen from a shell?"""

import os
import sys


def main() -> None:
    """Run one command; `up` runs before any settings exist, the others inside them."""
    try:
        run(sys.argv)
    except ModuleNotFoundError as missing:
        if missing.name in {"django", "psycopg", "redis"}:
            sys.exit(
                f"{missing.name} is not installed here: run `make up`, or use .venv/bin/python."
            )
        raise


def run(arguments: list[str]) -> None:
    """Hand the command over to the supervisor or to Django."""
    from kaizen.supervisor.errors import CannotStart

    if arguments[1:2] == ["up"]:
        from kaizen.supervisor.cli import main as up

        sys.exit(up(arguments[2:]))
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from kaizen.supervisor.state import adopt_running_environment

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
    try:
        adopted = adopt_running_environment()
        if arguments[1:2] == ["demo"] and not adopted:
            sys.exit("Kaizen is not running here. Start it with `make up` in another terminal.")
        execute_from_command_line(arguments)
    except (CannotStart, ImproperlyConfigured) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
