"""Look after the keys that secret values lie under."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.audit.services import SYSTEM, record
from apps.broker.services import reseal_all


class Command(BaseCommand):
    """`manage.py secrets reseal` moves every stored value under the newest key."""

    help = "Seal every stored secret and token under the newest key, after a change of keys."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one word."""
        parser.add_argument("verb", choices=["reseal"])

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, and say how many there were."""
        count = reseal_all()
        if count:
            record(actor=SYSTEM, action="secret.resealed", subject=SYSTEM, detail={"count": count})
        self.stdout.write(f"{count} values were sealed under the newest key.")
