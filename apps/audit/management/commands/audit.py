"""Does the audit trail still say what was written? `manage.py audit verify`."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.audit.sealing import verify_audit

SHOWN_FAULTS = 50


class Command(BaseCommand):
    help = "Check every seal of the audit trail; exit 1 and say where it breaks, if it does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["verify"])
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        verdict = verify_audit()
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "sound": verdict.sound,
                        "seals": verdict.seals,
                        "sealed_rows": verdict.sealed_rows,
                        "unsealed_rows": verdict.unsealed_rows,
                        "faults": verdict.faults[:SHOWN_FAULTS],
                    }
                )
            )
        else:
            for fault in verdict.faults[:SHOWN_FAULTS]:
                self.stdout.write(fault)
            self.stdout.write(
                f"{verdict.seals} seals over {verdict.sealed_rows} rows checked,"
                f" {verdict.unsealed_rows} rows wait for their seal: "
                + ("sound." if verdict.sound else f"{len(verdict.faults)} faults.")
            )
        if not verdict.sound:
            sys.exit(1)
