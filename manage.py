#!/usr/bin/env python3
"""How does an operator talk to Kaizen from a shell?"""

import os
import sys


def main() -> None:
    """Run one command inside the settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing.name} is not installed here: run `make up`, or use .venv/bin/python.")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
