"""What would the tool cost without a boundary? Its function behind the same HTTP server."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

import django

django.setup()

from asgiref.sync import sync_to_async  # noqa: E402
from django.db import connection  # noqa: E402

from apps.agents.models import Agent  # noqa: E402


@sync_to_async
def _list_agents() -> bytes:
    try:
        agents = list(Agent.objects.filter(enabled=True).values("slug", "name", "description")[:51])
        return json.dumps({"agents": agents}).encode()
    finally:
        connection.close()


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer every request with what the tool returns."""
    await receive()
    body = await _list_agents()
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
