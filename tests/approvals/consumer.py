"""A process of its own that tries to carry out one approved call, when it is told to begin."""

from __future__ import annotations

import sys
from pathlib import Path

import django


def main(letters_path: str, call_id: str, name: str) -> None:
    """Say that this process is ready, wait for a line, and try once."""
    django.setup()
    import pytest

    from apps.boundary import pipeline
    from tests.factories.effects import Letters, offer, outside_tool

    offer(pytest.MonkeyPatch(), outside_tool(Letters(Path(letters_path)).handler))
    print("ready", flush=True)
    sys.stdin.readline()
    pipeline.execute_waiting(call_id=call_id, executor=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
