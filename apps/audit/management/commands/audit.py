"""Does the audit trail still say what was written, and how long is it kept?

`manage.py audit verify` and `manage.py audit retain`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.audit.heads import head_path
from apps.audit.retention import NotRetained, months_beyond, retain
from apps.audit.verifying import verify_audit

SHOWN_FAULTS = 50


class Command(BaseCommand):
    # What it says depends on the rows and the keys; pages and addresses need no look for that.
    requires_system_checks = ()
    help = (
        "verify: check every seal of the audit trail; exit 1 and say where it breaks, if it does."
        " retain: drop the months that the policy does not keep, and leave proof of what went."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        verify = actions.add_parser("verify", help="check every seal and every row")
        verify.add_argument("--json", action="store_true", help="print one JSON object")
        verify.add_argument(
            "--heads",
            type=Path,
            action="append",
            default=[],
            help="a copy of audit-head.jsonl that was kept elsewhere; may be given again",
        )
        keep = actions.add_parser("retain", help="drop old months")
        keep.add_argument(
            "--months",
            type=int,
            default=settings.KAIZEN_AUDIT_KEEP_MONTHS,
            help="how many months before this one stay; KAIZEN_AUDIT_KEEP_MONTHS unless given",
        )
        keep.add_argument("--dry-run", action="store_true", help="only say which months would go")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "retain":
            self._retain(options["months"], only_say=options["dry_run"])
        else:
            self._verify(options["heads"], as_json=options["json"])

    def _verify(self, heads: list[Path], *, as_json: bool) -> None:
        for path in heads:
            if not path.is_file():
                raise CommandError(f"There is no file {path}.")
        verdict = verify_audit(heads)
        if as_json:
            told = {"sound": verdict.sound, **asdict(verdict)}
            told["faults"] = told["faults"][:SHOWN_FAULTS]
            self.stdout.write(json.dumps(told))
        else:
            for fault in verdict.faults[:SHOWN_FAULTS]:
                self.stdout.write(fault)
            if verdict.dropped_months:
                self.stdout.write(
                    f"{verdict.dropped_rows} rows were dropped by retention:"
                    f" {', '.join(verdict.dropped_months)}."
                )
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

    def _retain(self, months: int, *, only_say: bool) -> None:
        if months < 1:
            raise CommandError(
                "The policy keeps everything. Set KAIZEN_AUDIT_KEEP_MONTHS, or give --months."
            )
        if only_say:
            for month in months_beyond(months):
                self.stdout.write(f"{month} would be dropped.")
            return
        try:
            dropped = retain(months)
        except NotRetained as refusal:
            raise CommandError(str(refusal)) from refusal
        for one in dropped:
            self.stdout.write(f"{one.month:%Y-%m}: {one.rows} rows dropped.")
        if not dropped:
            self.stdout.write(f"Nothing is older than {months} months.")
