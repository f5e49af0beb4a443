"""How does a proposal reach the boundary without everything that pages need around them?

Django's chain of middleware serves pages: sessions, forms, languages. A proposal needs none of it,
and comes so often that its cost counts. So a plain one is taken here, straight from the web server:
one hop into a thread, one transaction, one answer with the same headers and the same line in the
log. Anything out of the ordinary goes through Django as before, and is answered there.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import structlog
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from apps.boundary.api.plain import (
    MAX_PLAIN_BYTES,
    PATH,
    Answer,
    PlainProposal,
    answer_plainly,
    read_plainly,
)
from apps.core.afterwards import held, work_off
from kaizen.headers import SafeHeadersMiddleware

log = structlog.get_logger(__name__)

_TAKES = frozenset({b"application/json", b"*/*"})
_ONCE = (b"host", b"authorization", b"content-type", b"dpop")


class ProposalDoor:
    """An ASGI application that answers plain proposals, and hands on everything else."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        self._turns = _Turns()
        # Half of the connections, so that pages find one however many proposals come.
        threads = max(2, settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"] // 2)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="proposals")

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        headers = _plain_headers(scope)
        if headers is None:
            await self._inside(scope, receive, send)
            return
        read = await _beginning(receive)
        if read is None:
            return
        proposal = read_plainly(read[0]) if read[1] else None
        if proposal is None:
            await self._inside(scope, _again(*read, receive), send)
            return
        authorization = headers[b"authorization"].decode("latin-1")
        proof = headers.get(b"dpop", b"").decode("latin-1")
        async with self._turns.of(authorization):
            loop = asyncio.get_running_loop()
            answered: asyncio.Future[Answer] = loop.create_future()
            correlation_id = uuid.uuid4()
            working = self._threads.submit(
                contextvars.Context().run,
                _answer,
                _Asked(authorization, proof, proposal, scope, correlation_id),
                lambda outcome: loop.call_soon_threadsafe(_tell, answered, outcome),
            )
            working.add_done_callback(_complain)
            answer = await answered
        secure = scope["scheme"] == "https"
        await _send(send, answer, secure=secure, correlation_id=correlation_id.hex)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A plain proposal with what came around it."""

    authorization: str
    proof: str
    proposal: PlainProposal
    scope: dict[str, Any]
    correlation_id: uuid.UUID


def _tell(answered: asyncio.Future[Answer], outcome: Answer | BaseException) -> None:
    """Hand an answer to the request that waits for it, unless its sender has gone."""
    if answered.done():
        return
    if isinstance(outcome, BaseException):
        answered.set_exception(outcome)
    else:
        answered.set_result(outcome)


class _Turns:
    """Calls of one run take turns here, holding neither a thread nor a connection.

    They would wait for each other anyway, for the run's row.
    """

    def __init__(self) -> None:
        self._queues: dict[bytes, tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def of(self, authorization: str) -> AsyncIterator[None]:
        key = hashlib.sha256(authorization.encode("latin-1")).digest()
        lock, holders = self._queues.setdefault(key, (asyncio.Lock(), []))
        holders.append(None)
        try:
            async with lock:
                yield
        finally:
            holders.pop()
            if not holders:
                del self._queues[key]


def _complain(working: Future[None]) -> None:
    """Say what broke after the answer had gone, which nobody else hears."""
    broken = working.exception()
    if broken is not None:
        log.error("proposal_thread_broke", exc_info=broken)


def _answer(asked: _Asked, tell: Callable[[Answer | BaseException], Any]) -> None:
    """Answer in a thread, in a context of its own, and leave the line that every request leaves.

    The answer goes out first. What nobody waits for comes after it: the room's bell, the way back
    of the connection to the pool, the line itself.
    """
    structlog.contextvars.bind_contextvars(
        request_id=str(asked.correlation_id),
        correlation_id=asked.correlation_id.hex,
        ip=(asked.scope.get("client") or (None,))[0],
    )
    left: list[Callable[[], None]] = []
    try:
        try:
            with held() as left:
                answer = _answered(asked)
        except BaseException as failure:  # noqa: BLE001 - raised where the answer is waited for
            tell(failure)
            return
        tell(answer)
    finally:
        # What was committed is told also where the answer failed.
        work_off(left)
        connection.close()
    level = {2: log.info, 4: log.warning}.get(answer.status // 100, log.error)
    level("request_finished", code=answer.status, request=f"POST {PATH}", user_id=answer.member_id)


def _answered(asked: _Asked) -> Answer:
    # The address is asked of Django, so that no two readers of one request differ about it.
    address = ASGIRequest(asked.scope, BytesIO()).build_absolute_uri(PATH) if asked.proof else ""
    return answer_plainly(asked.authorization, asked.proposal, proof=asked.proof, address=address)


# --- what is plain


def _plain_headers(scope: dict[str, Any]) -> dict[bytes, bytes] | None:
    """Return the headers of a request that can be taken here, or None."""
    if scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
        return None
    if settings.SECURE_SSL_REDIRECT and scope["scheme"] != "https":
        return None
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _ONCE and name in headers:
            return None
        headers[name] = value
    content_type = headers.get(b"content-type", b"").split(b";")[0].strip()
    accepted = {part.split(b";")[0].strip() for part in headers.get(b"accept", b"*/*").split(b",")}
    plain = (
        content_type == b"application/json"
        and b"content-encoding" not in headers
        and b"authorization" in headers
        and bool(accepted & _TAKES)
        and _serves(headers.get(b"host", b"").decode("latin-1"))
    )
    return headers if plain else None


@functools.lru_cache(maxsize=64)
def _serves(host: str) -> bool:
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


async def _beginning(receive: Any) -> tuple[bytes, bool] | None:
    """Return a body and True, or the beginning of a large one; None where its sender went away."""
    raw = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        raw += message.get("body", b"")
        if not message.get("more_body", False):
            return raw, True
        if len(raw) > MAX_PLAIN_BYTES:
            return raw, False


def _again(raw: bytes, whole: bool, receive: Any) -> Any:
    """Return a `receive` that gives first what was read already."""
    read = [{"type": "http.request", "body": raw, "more_body": not whole}]

    async def once_more() -> Any:
        return read.pop() if read else await receive()

    return once_more


async def _send(send: Any, answer: Answer, *, secure: bool, correlation_id: str) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        (b"allow", b"POST, OPTIONS"),
        *_usual_headers(secure),
        (b"x-correlation-id", correlation_id.encode()),
        *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


class _Example(HttpRequest):
    """A request like those that are answered here."""

    def __init__(self, secure: bool) -> None:
        super().__init__()
        self.method, self.path, self._secure = "POST", PATH, secure

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
