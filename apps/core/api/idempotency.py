"""What if a creation request arrives twice? The second gets the first one's answer.

The key is stored in the transaction of the creation, so either both are there or neither. Two
that arrive together meet at an advisory lock that the database drops with the transaction; the
later one is told so at once instead of holding a connection while it waits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import connection, transaction
from django.db.models.functions import Now
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.errors import Conflict, Invalid
from apps.core.models import IdempotencyKey
from apps.domain.canonical import canonical_json

HEADER = "Idempotency-Key"
REPLAY_HEADER = "Idempotent-Replay"
MAX_KEY = 200
KEPT = timedelta(hours=24)


class IdempotencyMismatch(Conflict):
    """The key was used for another body."""

    code = "idempotency_mismatch"


class InProgress(Conflict):
    """The first request with this key has not ended yet."""

    code = "in_progress"


def create_once(
    request: Request,
    *,
    owner: str,
    make: Callable[[], Response],
    shown_once: Collection[str] = (),
) -> Response:
    """Answer a creation request, or a repeat of it from memory.

    Members named in `shown_once` are secrets: they are answered and never stored, so a repeat
    carries null in their place.
    """
    value = _key_of(request)
    if value is None:
        with transaction.atomic():
            return make()
    route = _route_of(request)
    fingerprint = _fingerprint(request)
    with transaction.atomic():
        _lock(owner, route, value)
        known = IdempotencyKey.objects.filter(owner=owner, route=route, value=value)
        known.filter(created_at__lte=Now() - KEPT).delete()
        first = known.first()
        if first is not None:
            return _replay(first, fingerprint)
        response = make()
        body = json.loads(JSONRenderer().render(response.data) or b"null")
        IdempotencyKey.objects.create(
            owner=owner,
            route=route,
            value=value,
            request_digest=fingerprint,
            status=response.status_code,
            body=_without(body, shown_once),
        )
    return response


def forget_old_keys(*, limit: int = 5_000) -> int:
    """Delete remembered answers older than a day; return how many."""
    old = IdempotencyKey.objects.filter(created_at__lte=Now() - KEPT).order_by("created_at")
    ids = list(old.values_list("pk", flat=True)[:limit])
    count, _ = IdempotencyKey.objects.filter(pk__in=ids).delete()
    return count


def _replay(first: IdempotencyKey, fingerprint: str) -> Response:
    if first.request_digest != fingerprint:
        raise IdempotencyMismatch(
            f"This {HEADER} was used with another request. Take a new key for a new request."
        )
    return Response(first.body, status=first.status, headers={REPLAY_HEADER: "true"})


def _key_of(request: Request) -> str | None:
    value = request.headers.get(HEADER)
    if value is None:
        return None
    if not 1 <= len(value) <= MAX_KEY or not (value.isascii() and value.isprintable()):
        raise Invalid(f"{HEADER} has 1 to {MAX_KEY} printable ASCII characters.", field=HEADER)
    return value


def _route_of(request: Request) -> str:
    route = f"{request.method} {request.path}"
    if len(route) <= 200:
        return route
    return f"{route[:130]} {hashlib.sha256(route.encode()).hexdigest()}"


def _lock(owner: str, route: str, value: str) -> None:
    name = hashlib.sha256(f"{owner}\n{route}\n{value}".encode()).digest()
    number = int.from_bytes(name[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number])
        row = cursor.fetchone()
    if not row or not row[0]:
        raise InProgress(
            f"The first request with this {HEADER} is still at work. Ask again soon.",
            extra={"retry_after": 1},
        )


def _fingerprint(request: Request) -> str:
    """Digest what the request asks for: its JSON value, or its form fields and files."""
    data = request.data
    if not hasattr(data, "lists"):
        return "sha256:" + hashlib.sha256(canonical_json(data)).hexdigest()
    whole = hashlib.sha256()
    for name, values in sorted(data.lists()):
        for item in values:
            whole.update(f"{len(name)}:{name}:".encode())
            if isinstance(item, UploadedFile):
                for chunk in item.chunks():
                    whole.update(chunk)
                item.seek(0)
            else:
                whole.update(str(item).encode())
            whole.update(b"\x00")
    return "sha256:" + whole.hexdigest()


def _without(body: Any, names: Collection[str]) -> Any:
    if isinstance(body, Mapping):
        return {name: None if name in names else value for name, value in body.items()}
    return body
