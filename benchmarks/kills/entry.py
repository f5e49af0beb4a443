"""What every process of this benchmark does before it works: counted tools, steps that can kill."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

import django

django.setup()

from benchmarks.effects import FILE_VARIABLE  # noqa: E402
from benchmarks.kills.broken import break_the_unknown_end  # noqa: E402
from benchmarks.kills.traps import lay_out  # noqa: E402
from benchmarks.outside import install  # noqa: E402

BROKEN_VARIABLE = "KAIZEN_BENCHMARK_BROKEN"


def prepare() -> None:
    """Make this process one of the benchmark's."""
    install(Path(os.environ[FILE_VARIABLE]), seconds=0.05)
    if os.environ.get(BROKEN_VARIABLE):
        break_the_unknown_end()
    lay_out()


prepare()
