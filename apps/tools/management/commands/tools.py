"""Look at tools from the command line: `manage.py tools inventory`, `manage.py tools check`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.tools.inventory import PAGE, inventory_page, is_stale, page_path


class Command(BaseCommand):
    """List our own tools on their page."""

    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a verb and what belongs to it."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        inventory = verbs.add_parser("inventory", help="write the page that lists our own tools")
        inventory.add_argument(
            "--check", action="store_true", help="write nothing; exit 1 where the page is stale"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the verb says."""
        self._inventory(check=options["check"])

    def _inventory(self, *, check: bool) -> None:
        if not check:
            page_path().write_text(inventory_page(), encoding="utf-8")
            self.stdout.write(f"Wrote {PAGE}.")
        elif is_stale():
            self.stderr.write(f"{PAGE} is stale. Run `python manage.py tools inventory`.")
            sys.exit(1)
