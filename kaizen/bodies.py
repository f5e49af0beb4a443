"""How large may a request be? Asked before Django spools any of it to disk."""

from typing import Any

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Above every limit of a single view, so that those can still answer in their own words."""

_REFUSAL = (
    b'{"type":"urn:kaizen:problem:too_large","title":"Content Too Large","status":413,'
    b'"code":"too_large","detail":"A request has at most 8 MiB."}'
)


class BodyLimit:
    """An ASGI application that lets no larger body through to the one inside."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Refuse a declared size at once; end a body that grows past the bound unannounced."""
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            await _refuse(send)
            return
        taken = 0

        async def bounded() -> Any:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return {"type": "http.disconnect"} if taken > MAX_BODY_BYTES else message

        await self._inside(scope, bounded, send)


async def _refuse(send: Any) -> None:
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(_REFUSAL)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSAL})
