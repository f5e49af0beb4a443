#!/usr/bin/env python3
"""How does an operator talk to Kaizen from a shell?"""

import os
import sys


def main() -> None:
    """Run one command; `up` and `demo` run without any settings, the others inside them."""
    try:
        run(sys.argv)
    except ModuleNotFoundError as missing:
        if missing.name in {"django", "httpx", "psycopg", "redis"}:
            sys.exit(
                f"{missing.name} is not installed here: run `make up`, or use .venv/bin/python."
            )
        raise


def run(arguments: list[str]) -> None:
    """Hand the command over to the supervisor, to the demonstration or to Django."""
    from kaizen.supervisor.errors import CannotStart

    if arguments[1:2] == ["up"]:
        from kaizen.supervisor.cli import main as up

        sys.exit(up(arguments[2:]))
    from kaizen.supervisor.state import CLONE, adopt_running_environment

    if arguments[1:2] == ["demo"]:
        from apps.web.demo.command import NOT_RUNNING
        from apps.web.demo.command import main as demo

        if not adopt_running_environment():
            sys.exit(NOT_RUNNING)
        sys.exit(demo(arguments[2:], running=CLONE / "var" / "running.json"))
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
    try:
        adopt_running_environment()
        execute_from_command_line(arguments)
    except (CannotStart, ImproperlyConfigured) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
