"""The whole web application, as its server calls it, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import httpx

from kaizen.asgi import application


def through_server(
    method: str,
    url: str,
    body: str | bytes | Sequence[bytes],
    headers: dict[str, str],
    *,
    scheme: str = "http",
) -> httpx.Response:
    """Send one request through everything that a request passes on its way.

    A body in pieces is sent as such, and its length is not announced.
    """

    async def in_pieces(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def send() -> httpx.Response:
        content = body if isinstance(body, str | bytes) else in_pieces(body)
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://testserver") as web:
            return await web.request(
                method,
                url,
                content=content,
                headers={"Content-Type": "application/json", **headers},
            )

    return asyncio.run(send())
