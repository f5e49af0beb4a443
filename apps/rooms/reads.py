"""How does the event loop ask the database without ever waiting for it?

A few threads read; each gives its connection back at once, so sockets hold none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 4
"""Fewer than the connection pool holds, so that requests always find one too."""

_pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="room-reads")


async def read(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a selector in one of the reading threads."""

    def then_give_back() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.get_running_loop().run_in_executor(_pool, then_give_back)
