"""Does a pooled connection still live? Its socket knows, without asking the server."""

from __future__ import annotations

import select
from typing import Any

import psycopg


class PooledConnection(psycopg.Connection[Any]):
    """A connection that answers the pool's own question, an empty statement, by itself.

    A server that has gone away, and one that has something to say, makes the socket readable while
    nobody asked anything. Only then is the question really put, and the answer believed.
    """

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> psycopg.Cursor[Any]:
        """Run a statement; an empty one on a silent connection costs no round trip."""
        if query == "" and not args and not kwargs and not self._is_heard():
            return self.cursor()
        return super().execute(query, *args, **kwargs)

    def _is_heard(self) -> bool:
        listening = select.poll()
        listening.register(self.fileno(), select.POLLIN)
        return bool(listening.poll(0))
