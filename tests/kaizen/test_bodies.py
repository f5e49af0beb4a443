"""No request may fill a disk before a view has said how much it takes."""

from __future__ import annotations

import json
from typing import Any

from kaizen.bodies import MAX_BODY_BYTES, BodyLimit


async def send_body(chunks: list[bytes], declared: int | None) -> tuple[list[Any], list[Any]]:
    """Send a body in chunks; return what came out, and what reached the application."""
    out: list[Any] = []
    seen: list[Any] = []
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        out.append(message)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        for _ in chunks:
            seen.append(await receive())

    headers = [] if declared is None else [(b"content-length", str(declared).encode())]
    await BodyLimit(application)({"type": "http", "headers": headers}, receive, send)
    return out, seen


async def test_a_declared_size_above_the_bound_never_reaches_the_application() -> None:
    out, seen = await send_body([b"x"], MAX_BODY_BYTES + 1)
    assert out[0]["status"] == 413
    assert json.loads(out[1]["body"])["code"] == "too_large"
    assert seen == []


async def test_a_body_at_the_bound_passes_whole() -> None:
    half = b"x" * (MAX_BODY_BYTES // 2)
    out, seen = await send_body([half, half], MAX_BODY_BYTES)
    assert out == []
    assert [message["body"] for message in seen] == [half, half]


async def test_an_undeclared_body_that_grows_past_the_bound_is_cut_off() -> None:
    half = b"x" * (MAX_BODY_BYTES // 2)
    _, seen = await send_body([half, half, b"x"], None)
    assert seen[-1] == {"type": "http.disconnect"}
