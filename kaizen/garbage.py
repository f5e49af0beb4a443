"""How often does a process that serves look for garbage in cycles?

A request or a task makes thousands of objects that are gone by its end. Looking for cycles among
them every few hundred finds none and costs about a twelfth of the time.
"""

from __future__ import annotations

import gc


def look_seldom() -> None:
    """Look for cycles seldom from here on, and never among what is loaded already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
