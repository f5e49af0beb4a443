"""Does the whole story work? `manage.py demo` tells it against a running Kaizen.

It speaks to Kaizen over HTTP and WebSocket only, as anybody would, so it loads no app and no
settings: what it costs is what the story costs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import WebSocketException

from apps.web.demo.client import NotAsItShould
from apps.web.demo.story import Story

NOT_RUNNING = "Kaizen is not running here. Start it with `make up` in another terminal."


def main(arguments: list[str], *, running: Path) -> int:
    """Tell the story once and return the exit code; `running` is where `up` says what it runs."""
    parser = argparse.ArgumentParser(
        prog="manage.py demo",
        description="Walk through the whole story against a running Kaizen.",
    )
    parser.add_argument(
        "--running",
        type=Path,
        default=running,
        help="the file in which `up` says where it answers",
    )
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        told = _read(options.running)
        Story(url=told["url"], passwords=_passwords(told), say=_say).tell()
    except NotAsItShould as wrong:
        return _stop(str(wrong))
    except (httpx.HTTPError, WebSocketException, OSError) as away:
        return _stop(f"Kaizen did not answer ({type(away).__name__}).")
    except _NotReady as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"The story is whole. It took {time.monotonic() - began:.1f} s.\n")
    return 0


class _NotReady(Exception):
    """There is nothing to tell the story to."""


def _read(path: Path) -> dict[str, Any]:
    try:
        running: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        raise _NotReady(NOT_RUNNING) from None
    if not running.get("ready"):
        raise _NotReady("Kaizen is still starting. Try again in a moment.")
    return running


def _passwords(running: dict[str, Any]) -> dict[str, str]:
    passwords = {entry["username"]: entry["password"] for entry in running["sign_ins"]}
    missing = {"ines", "mara", "tomas"} - set(passwords)
    if missing:
        raise _NotReady(
            f"The sign-ins of {', '.join(sorted(missing))} are not known here."
            " The demonstration needs the accounts that the first start made."
        )
    return passwords


def _stop(why: str) -> int:
    sys.stderr.write(f"  The story stops here: {why}\n")
    return 1


def _say(step: str, saw: str) -> None:
    sys.stdout.write(f"  {step:<9} {saw}\n")
    sys.stdout.flush()
