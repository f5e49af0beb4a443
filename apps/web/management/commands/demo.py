"""Does the whole story work? `manage.py demo` tells it against a running Kaizen."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from websockets.exceptions import WebSocketException

from apps.web.demo.client import NotAsItShould
from apps.web.demo.story import Story


class Command(BaseCommand):
    help = "Walk through the whole story over HTTP and WebSocket against a running `make up`."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--running",
            type=Path,
            default=Path(settings.BASE_DIR) / "var" / "running.json",
            help="the file in which `up` says where it answers",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        running = _read(options["running"])
        passwords = {entry["username"]: entry["password"] for entry in running["sign_ins"]}
        missing = {"ines", "mara", "tomas"} - set(passwords)
        if missing:
            raise CommandError(
                f"The sign-ins of {', '.join(sorted(missing))} are not known here."
                " The demonstration needs the accounts that the first start made."
            )
        began = time.monotonic()
        try:
            Story(url=running["url"], passwords=passwords, say=self._say).tell()
        except NotAsItShould as wrong:
            self.stderr.write(f"  The story stops here: {wrong}")
            sys.exit(1)
        except (httpx.HTTPError, WebSocketException, OSError) as away:
            self.stderr.write(
                f"  The story stops here: Kaizen did not answer ({type(away).__name__})."
            )
            sys.exit(1)
        self.stdout.write(f"The story is whole. It took {time.monotonic() - began:.1f} s.")

    def _say(self, step: str, saw: str) -> None:
        self.stdout.write(f"  {step:<9} {saw}")
        self.stdout.flush()


def _read(path: Path) -> dict[str, Any]:
    try:
        running: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        raise CommandError(
            "Kaizen is not running here. Start it with `make up` in another terminal."
        ) from None
    if not running.get("ready"):
        raise CommandError("Kaizen is still starting. Try again in a moment.")
    return running
