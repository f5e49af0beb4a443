"""Examine the sandbox from the command line: `manage.py sandbox doctor`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from apps.sandbox.selectors import SandboxState, sandbox_state


class Command(BaseCommand):
    """Say whether code can run confined here, what is in force, and how to mend what is not."""

    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the verb and the form of the answer."""
        parser.add_argument("verb", choices=["doctor"])
        parser.add_argument("--json", action="store_true", help="answer as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Probe anew, print the findings, and exit with 1 where no code can run."""
        state = sandbox_state(fresh=True, with_syntax=True)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(state)))
        else:
            self._print(state)
        if not state.ready:
            sys.exit(1)

    def _print(self, state: SandboxState) -> None:
        self.stdout.write(f"{'ready' if state.ready else 'NOT READY'}: {state.sentence}")
        self.stdout.write(f"  asked from: node {state.node}")
        for line in state.in_force:
            self.stdout.write(f"  in force: {line}")
        for line in state.missing:
            self.stdout.write(f"  missing: {line}")
        if state.mend:
            self.stdout.write(f"  mend: {state.mend}")
