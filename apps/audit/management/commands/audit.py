"""Does the audit trail still say what was written? `manage.py audit verify`."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.audit.sealing import head_path, verify_audit

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
                        "heads_checked": verdict.heads_checked,
                        "fault_count": verdict.fault_count,
                        "faults": verdict.faults[:SHOWN_FAULTS],
                    }
                )
            )
        else:
            for fault in verdict.faults[:SHOWN_FAULTS]:
                self.stdout.write(fault)
            if not verdict.heads_checked:
                self.stdout.write(
                    f"No seals are written down in {head_path()} on this machine, so a trail that"
                    " was cut at its end looks whole here."
                )
            self.stdout.write(
                f"{verdict.seals} seals over {verdict.sealed_rows} rows checked,"
                f" {verdict.unsealed_rows} rows wait for their seal: "
                + ("sound." if verdict.sound else f"{verdict.fault_count} faults.")
            )
        if not verdict.sound:
            sys.exit(1)
