"""Another process on the same database: another worker, or the same one started anew."""

import os
import subprocess
import sys
from pathlib import Path

from django.db import connection

CLONE = Path(__file__).resolve().parents[2]
_BEGIN = "import django; django.setup()\n"


def another_process(program: str) -> "subprocess.Popen[str]":
    """Start a Python program that may use Kaizen's rows."""
    to = connection.settings_dict
    url = f"postgresql://{to['USER']}:{to['PASSWORD']}@{to['HOST']}:{to['PORT']}/{to['NAME']}"
    return subprocess.Popen(
        [sys.executable, "-c", _BEGIN + program],
        cwd=CLONE,
        env={**os.environ, "DATABASE_URL": url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said_elsewhere(program: str) -> str:
    """Run such a program to its end and return what it printed."""
    with another_process(program) as process:
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0
    return said
