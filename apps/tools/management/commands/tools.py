"""Look at tools from the command line: `manage.py tools inventory`, `manage.py tools check`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.tools.checking import BadInvocation, check_tools, read_selection
from apps.tools.checking.selection import Audience
from apps.tools.inventory import PAGE, inventory_page, is_stale, page_path


class Command(BaseCommand):
    """List our own tools on their page, and check declarations of tools."""

    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a verb and what belongs to it."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        inventory = verbs.add_parser("inventory", help="write the page that lists our own tools")
        inventory.add_argument(
            "--check", action="store_true", help="write nothing; exit 1 where the page is stale"
        )
        check = verbs.add_parser(
            "check",
            help="check declarations without running anything of them",
            description="Exit codes: 0 ready, 1 something is wrong, 2 the request makes no sense."
            " The report is JSON on the standard output.",
        )
        check.add_argument(
            "selector",
            nargs="?",
            help="builtin, package:NAME[@VERSION], proposal:ID, or a directory with a kaizen.json;"
            " left out: our own tools and every active package",
        )
        check.add_argument("--eval", metavar="SELECTOR", help="the same, by name")
        check.add_argument("--artifact", metavar="NAME", help="a package by its name, or builtin")
        check.add_argument(
            "--audience", choices=[*map(str, Audience)], help="for whom its tools are"
        )
        check.add_argument("--execute", action="store_true", help="run one tool, in the sandbox")
        check.add_argument("--tool", metavar="NAME", help="with --execute: the exact tool")
        check.add_argument(
            "--args", dest="arguments", metavar="JSON", help="with --execute: its arguments"
        )
        check.add_argument("--repo", metavar="DIR", help="where directories and manifests lie")
        check.add_argument("--state-dir", metavar="DIR", help="the state of another Kaizen here")
        check.add_argument(
            "--json", action="store_true", help="print the report alone, without the lines to read"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the verb says."""
        if options["verb"] == "inventory":
            self._inventory(check=options["check"])
        else:
            self._check(options)

    def _inventory(self, *, check: bool) -> None:
        if not check:
            page_path().write_text(inventory_page(), encoding="utf-8")
            self.stdout.write(f"Wrote {PAGE}.")
        elif is_stale():
            self.stderr.write(f"{PAGE} is stale. Run `python manage.py tools inventory`.")
            sys.exit(1)

    def _check(self, options: dict[str, Any]) -> None:
        try:
            report = check_tools(read_selection(options))
        except BadInvocation as refusal:
            raise CommandError(str(refusal), returncode=2) from None
        if not options["json"]:
            for line in _lines(report):
                self.stderr.write(line)
        self.stdout.write(json.dumps(report, ensure_ascii=True))
        if not report["ready"]:
            sys.exit(1)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Say the report in lines for people."""
    for scope in report["scopes"]:
        yield f"{'ready' if scope['ready'] else 'NOT READY'}: {scope['selector']}"
        yield from _problems(scope["problems"], "  ")
        for tool in scope["tools"]:
            yield f"  {'ready' if tool['ready'] else 'NOT READY'}: {tool['tool']}"
            yield from _problems(tool["problems"], "    ")
    yield from _problems(report["problems"], "")
    if execution := report["execution"]:
        yield f"executed: {execution['outcome']} {execution['message']}".rstrip()
        yield from (
            f"  {error['path']} {error['message']}" for error in execution.get("errors", ())
        )


def _problems(problems: list[dict[str, str]], margin: str) -> Iterator[str]:
    for problem in problems:
        place = f"{problem['path']}: " if problem["path"] else ""
        yield f"{margin}{place}{problem['message']} [{problem['rule']}]"
