"""The product's web server, in a process that can be made to die at any step."""

from __future__ import annotations

from benchmarks.kills import entry
from kaizen.asgi import application

__all__ = ["application", "entry"]
