"""The process that watches: fifty sockets, each noting when it had what."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect


class Viewer:
    """One socket and what it has seen."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.start = 0
        self.positions: list[int] = []
        self.arrived: dict[int, float] = {}
        self.grown: dict[str, list[tuple[int, float]]] = {}
        self.closed: set[str] = set()
        self.reading = asyncio.create_task(self._read())
        self.greeted = asyncio.Event()

    async def _read(self) -> None:
        async for raw in self._socket:
            now = time.monotonic()
            message = json.loads(raw)
            kind = message["type"]
            if kind == "event":
                self.positions.append(message["position"])
                self.arrived[message["position"]] = now
            elif kind in ("stream.delta", "stream.text"):
                self.grown.setdefault(message["stream"], []).append((message["length"], now))
            elif kind == "stream.close":
                self.closed.add(message["stream"])
            elif kind == "hello":
                self.start = message["position"]
                self.greeted.set()

    async def leave(self) -> None:
        """Close the socket."""
        await self._socket.close()
        await self.reading


class Watcher:
    """All sockets of one measurement."""

    def __init__(self) -> None:
        self._viewers: dict[str, list[Viewer]] = {}

    async def open(self, name: str, addresses: list[str]) -> dict[str, Any]:
        """Open the sockets and wait for their greetings."""
        viewers = self._viewers[name] = []
        for address in addresses:
            viewers.append(Viewer(await connect(address, proxy=None, compression=None)))
        await asyncio.wait_for(asyncio.gather(*(viewer.greeted.wait() for viewer in viewers)), 30)
        return {"opened": len(viewers)}

    async def latencies(self, name: str, sent: dict[str, float]) -> dict[str, Any]:
        """Say how long each message took to each viewer, and how many never came."""
        await self._until(
            lambda: all(int(key) in one.arrived for one in self._viewers[name] for key in sent)
        )
        waits, lost = [], 0
        for viewer in self._viewers[name]:
            for key, at in sent.items():
                arrived = viewer.arrived.pop(int(key), None)
                if arrived is None:
                    lost += 1
                else:
                    waits.append(arrived - at)
        return {"waits": waits, "lost": lost}

    async def growth(self, name: str, stream: str, sent: dict[str, float]) -> dict[str, Any]:
        """Say how long each length of a text took to each viewer, and who missed its end."""
        await self._until(lambda: all(stream in one.closed for one in self._viewers[name]))
        waits, lost = [], 0
        for viewer in self._viewers[name]:
            lost += stream not in viewer.closed
            grown = viewer.grown.pop(stream, [])
            for key, at in sent.items():
                arrived = next((when for length, when in grown if length >= int(key)), None)
                if arrived is not None:
                    waits.append(arrived - at)
        return {"waits": waits, "lost": lost}

    async def missing(self, name: str, last: int) -> dict[str, Any]:
        """Count the durable events that viewers did not get exactly once and in order."""
        await self._until(
            lambda: all(one.positions[-1:] == [last] for one in self._viewers[name]), seconds=10
        )
        lost = 0
        for viewer in self._viewers[name]:
            expected = list(range(viewer.start + 1, last + 1))
            if viewer.positions != expected:
                lost += max(1, len(set(expected) - set(viewer.positions)))
        return {"lost": lost}

    async def close(self, name: str) -> dict[str, Any]:
        """Close the sockets of one measurement."""
        await asyncio.gather(*(viewer.leave() for viewer in self._viewers.pop(name)))
        return {}

    async def _until(self, condition: Any, seconds: float = 5.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def main() -> None:
    """Answer each line of the benchmark with another, reading sockets all the while."""
    watcher = Watcher()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        answer = await getattr(watcher, request.pop("what"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
