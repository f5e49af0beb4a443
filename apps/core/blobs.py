"""Where do large bodies lie, and when may one be thrown away?

A body is stored once under the digest of its bytes. Each new reference touches the row under its
lock, so the collector, which takes only untouched and unreferenced rows, can never race a writer.

Locks are kept until the transaction ends. So whoever stores more than one body in a transaction
stores all of them at once, `put_blobs` or `stored_together`: in the order of their digests, which
is the same for everybody, and two that keep the same bytes never wait for each other in a circle.
What settles a call comes last, alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from django.db import connection, transaction
from django.db.models.functions import Now

from apps.core.models import Blob

INLINE_LIMIT = 8 * 1024
"""Arguments and results above this many bytes lie here instead of in their row."""

_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_ROWS = 500
_GRACE = timedelta(days=1)
_references: list[Callable[[], Iterable[str]]] = []


_stored: ContextVar[frozenset[str]] = ContextVar("stored", default=frozenset())


def digest_of(content: bytes) -> str:
    """Return the digest under which bytes are stored (`sha256:` and 64 hex digits)."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@contextmanager
def stored_together(contents: Iterable[bytes]) -> Iterator[None]:
    """Store all bodies that a transaction keeps, in their one order; inside, they are there.

    For a transaction whose bodies are referred to by several verbs, each of which stores its own.
    """
    if not transaction.get_connection().in_atomic_block:
        raise LookupError("Without a transaction nothing would be stored together.")
    token = _stored.set(_stored.get() | set(put_blobs(contents).values()))
    try:
        yield
    finally:
        _stored.reset(token)


def put_blob(content: bytes) -> str:
    """Store bytes and return their digest."""
    digest = digest_of(content)
    if digest in _stored.get():
        return digest
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_blob (digest, size, content, touched_at)"
            " VALUES (%s, %s, %s, statement_timestamp())"
            " ON CONFLICT (digest) DO UPDATE SET touched_at = excluded.touched_at",
            [digest, len(content), content],
        )
    return digest


def put_blobs(contents: Iterable[bytes]) -> dict[bytes, str]:
    """Store many bodies, a few statements for all of them, and return the digest of each.

    Rows are locked in the order of their digests, so two that store the same ones do not meet.
    """
    digests = {digest_of(content): content for content in contents}
    for batch in _batches(sorted(digests.keys() - _stored.get()), digests):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO core_blob (digest, size, content, touched_at)"
                " SELECT digest, length(content), content, statement_timestamp()"
                " FROM unnest(%s::text[], %s::bytea[]) AS given (digest, content)"
                " ON CONFLICT (digest) DO UPDATE SET touched_at = excluded.touched_at",
                [batch, [digests[digest] for digest in batch]],
            )
    return {content: digest for digest, content in digests.items()}


def _batches(ordered: Iterable[str], bodies: Mapping[str, bytes]) -> Iterator[list[str]]:
    """Yield digests in an order that is kept, so many that a statement stays small."""
    batch: list[str] = []
    size = 0
    for digest in ordered:
        size += len(bodies[digest])
        if batch and (size > _BATCH_BYTES or len(batch) == _BATCH_ROWS):
            yield batch
            batch, size = [], len(bodies[digest])
        batch.append(digest)
    if batch:
        yield batch


def get_blob(digest: str) -> bytes:
    """Return the bytes behind a digest."""
    return bytes(Blob.objects.values_list("content", flat=True).get(pk=digest))


def piece_of_blob(digest: str, start: int, length: int) -> bytes:
    """Return some bytes of a body, fewer where it ends earlier, none where it is not there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT substring(content FROM %s FOR %s) FROM core_blob WHERE digest = %s",
            [start + 1, length, digest],
        )
        row = cursor.fetchone()
    return bytes(row[0]) if row else b""


def get_blobs(digests: Iterable[str]) -> dict[str, bytes]:
    """Return many bodies in one query, by digest."""
    rows = Blob.objects.filter(pk__in=set(digests)).values_list("digest", "content")
    return {digest: bytes(content) for digest, content in rows}


def register_references(selector: Callable[[], Iterable[str]]) -> None:
    """Tell the collector which digests an app still points at."""
    _references.append(selector)


def collect_blobs(*, limit: int = 500) -> int:
    """Delete bodies that nothing points at and nobody touched for a day; return how many."""
    with transaction.atomic():
        old = list(
            Blob.objects.select_for_update(skip_locked=True)
            .filter(touched_at__lt=Now() - _GRACE)
            .order_by("touched_at")
            .values_list("digest", flat=True)[:limit]
        )
        held = {digest for selector in _references for digest in selector()} if old else set()
        free = [digest for digest in old if digest not in held]
        Blob.objects.filter(pk__in=free).delete()
        # Held rows go to the back of the line, else the same ones would be looked at for ever.
        Blob.objects.filter(pk__in=[d for d in old if d in held]).update(touched_at=Now())
    return len(free)
