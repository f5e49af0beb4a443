"""Kaizen's web server with the counted tools beside its own."""

from __future__ import annotations

import os
from pathlib import Path

from kaizen.asgi import application

__all__ = ["application"]

# After the settings stand, which the line above saw to.
from benchmarks.effects import FILE_VARIABLE
from benchmarks.outside import install

install(Path(os.environ[FILE_VARIABLE]))
