"""What is the same about every request that is answered before Django's chain of middleware?

Which requests are plain enough for that, and which headers and which line in the log an answer
gets, so that nobody can tell by them who answered.
"""

from __future__ import annotations

import functools
import uuid
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from apps.boundary.api.plain import Answer
from kaizen.headers import SafeHeadersMiddleware

log = structlog.get_logger(__name__)

_TAKES = frozenset({b"application/json", b"*/*"})
_ONCE = (b"host", b"authorization", b"content-type", b"dpop")


def plain_headers(scope: dict[str, Any]) -> dict[bytes, bytes] | None:
    """Return the headers of a request of somebody with a token that can be taken here, or None."""
    if settings.SECURE_SSL_REDIRECT and scope["scheme"] != "https":
        return None
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _ONCE and name in headers:
            return None
        headers[name] = value
    accepted = {part.split(b";")[0].strip() for part in headers.get(b"accept", b"*/*").split(b",")}
    plain = (
        b"content-encoding" not in headers
        and b"authorization" in headers
        and bool(accepted & _TAKES)
        and _serves(headers.get(b"host", b"").decode("latin-1"))
    )
    return headers if plain else None


def again(raw: bytes, whole: bool, receive: Any) -> Any:
    """Return a `receive` that gives first what was read already."""
    read = [{"type": "http.request", "body": raw, "more_body": not whole}]

    async def once_more() -> Any:
        return read.pop() if read else await receive()

    return once_more


def begin_lines(scope: dict[str, Any], correlation_id: uuid.UUID) -> None:
    """Let every line in the log say from here on to which request it belongs."""
    structlog.contextvars.bind_contextvars(
        request_id=str(correlation_id),
        correlation_id=correlation_id.hex,
        ip=(scope.get("client") or (None,))[0],
    )


def leave_line(answer: Answer, asked: str) -> None:
    """Leave the line in the log that every request leaves."""
    level = {2: log.info, 4: log.warning}.get(answer.status // 100, log.error)
    level("request_finished", code=answer.status, request=asked, user_id=answer.member_id)


async def send_answer(
    send: Any, answer: Answer, *, allow: bytes, secure: bool, correlation_id: uuid.UUID
) -> None:
    """Send an answer with the headers that it would have from within."""
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        (b"allow", allow),
        *_usual_headers(secure),
        (b"x-correlation-id", correlation_id.hex.encode()),
        *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


@functools.lru_cache(maxsize=64)
def _serves(host: str) -> bool:
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


class _Example(HttpRequest):
    """A request like those that are answered here."""

    def __init__(self, secure: bool) -> None:
        super().__init__()
        self.method, self.path, self._secure = "POST", "/", secure

    def _get_scheme(self) -> str:
        return "https" if self._secure else "http"


@functools.cache
def _usual_headers(secure: bool) -> list[tuple[bytes, bytes]]:
    """Return what the product's middleware puts on every answer, said once by itself."""
    chain: Any = SecurityMiddleware(
        SafeHeadersMiddleware(XFrameOptionsMiddleware(lambda _: HttpResponse()))
    )
    return [
        (name.lower().encode(), value.encode())
        for name, value in chain(_Example(secure)).items()
        if name not in ("Content-Type", "X-Correlation-ID")
    ]
