"""`manage.py up` with the benchmark's worker and web entries, and no end of patience.

The product's supervisor gives up on a child that dies six times within a minute. Here dying is what
everything is about.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.kills.traps import HERE_VARIABLE
from kaizen.supervisor import children, cli, stack

ENTRIES = {
    "kaizen.celery": "benchmarks.kills.workers",
    "kaizen.asgi:application": "benchmarks.kills.web:application",
}


class MortalStack(stack.Stack):
    """The product's processes under other entries."""

    def _python(
        self, name: str, arguments: list[str], environment: dict[str, str], **options: Any
    ) -> children.ChildSpec:
        entries = [ENTRIES.get(word, word) for word in arguments] if name != "beat" else arguments
        # Each of several web servers is a place where a request may pass.
        place = "web" if name.startswith("web") else name
        return super()._python(name, entries, {**environment, HERE_VARIABLE: place}, **options)


if __name__ == "__main__":
    children.RESTARTS = 1_000_000
    cli.Stack = MortalStack  # type: ignore[attr-defined]
    sys.exit(cli.main(sys.argv[1:]))
