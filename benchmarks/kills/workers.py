"""The product's Celery application, in a process that can be made to die at any step."""

from __future__ import annotations

from benchmarks.kills import entry
from kaizen.celery import app

__all__ = ["app", "entry"]
