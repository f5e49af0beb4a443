"""The whole web application, as its server calls it, without a server."""

from __future__ import annotations

import asyncio

import httpx

from kaizen.asgi import application


def through_server(
    method: str, url: str, body: str | bytes, headers: dict[str, str], *, scheme: str = "http"
) -> httpx.Response:
    """Send one request through everything that a request passes on its way."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://testserver") as web:
            return await web.request(
                method, url, content=body, headers={"Content-Type": "application/json", **headers}
            )

    return asyncio.run(send())
