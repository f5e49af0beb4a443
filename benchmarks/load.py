"""How is load made without costing the server its core? A small HTTP/1.1 client, kept alive."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks.harness import BenchmarkFailed


class Connection:
    """One kept-alive connection; knows only what these benchmarks need."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def post(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send one JSON body and return status and answer."""
        raw = json.dumps(body).encode()
        more = {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        return await self._ask("POST", path, headers | more, raw)

    async def get(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Ask for something and return status and answer."""
        return await self._ask("GET", path, headers, b"")

    async def _ask(
        self, method: str, path: str, headers: dict[str, str], raw: bytes
    ) -> tuple[int, bytes]:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
        return int(head.split(" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


async def drive(
    *,
    url: str,
    path: str,
    headers: list[dict[str, str]],
    body: Callable[[int], Any],
    concurrency: int,
    seconds: float,
) -> tuple[list[float], float]:
    """Send requests for a while; return each one's milliseconds and the seconds that it took.

    The headers go round among the connections, each of which keeps its own.
    """
    times: list[float] = []
    number = 0
    until = time.perf_counter() + seconds

    async def one(ours: dict[str, str]) -> None:
        nonlocal number
        connection = Connection(url)
        await connection.open()
        while time.perf_counter() < until:
            number += 1
            mine = number
            began = time.perf_counter()
            status, answer = await connection.post(path, body(mine), ours)
            times.append((time.perf_counter() - began) * 1000)
            if status != 200:
                raise BenchmarkFailed(f"{path} answered {status}: {answer[:200]!r}")
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(headers[place % len(headers)]) for place in range(concurrency)))
    return times, time.perf_counter() - began
