"""Is this task still wanted? What every loop asks that goes on for ever and passes over failures.

A time-out that ends in the very moment of a cancellation may come out as a TimeoutError, in asyncio
as in client libraries. Whoever takes that for an absent store and goes on would never end. The task
itself remembers that it was asked to.
"""

from __future__ import annotations

import asyncio


def still_wanted() -> bool:
    """Tell whether nobody has cancelled the current task, whatever became of the cancellation."""
    task = asyncio.current_task()
    return task is None or not task.cancelling()
