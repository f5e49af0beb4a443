"""How do stored bytes leave Kaizen? As a file to save, piece by piece, never shown in place.

A body can be large, and its reader slow. So no more than one piece of it is in memory, and between
two pieces neither a connection of the database nor the loop of the server waits for the reader.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from apps.core.blobs import piece_of_blob

PIECE: Final = 1024 * 1024
"""So many bytes are read and sent at once."""
OPAQUE: Final = "application/octet-stream"

_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})\Z", re.ASCII)


class GivenAsItIs(BaseContentNegotiation):
    """The negotiation of views that hand out bytes: those are what they are, whatever is asked.

    Only a problem is rendered, and always in the one form that problems have.
    """

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """Take the first parser; such requests have no body."""
        return next(iter(parsers))

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Take the first renderer."""
        first = next(iter(renderers))
        return first, first.media_type


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A body that somebody may have, and the name and type under which it is handed out."""

    digest: str
    size: int
    name: str
    media_type: str = OPAQUE


class BrokenOff(RuntimeError):
    """A body was thrown away while it was being sent."""


def as_download(request: HttpRequest, file: StoredFile) -> HttpResponseBase:
    """Hand out a file whole, or the one range that was asked for; nothing if it is known already.

    The caller has found that whoever asks may have it.
    """
    known = get_conditional_response(request, etag=f'"{file.digest}"')
    if known is not None:
        return _contained(known, file)
    asked = _asked_range(request, file)
    if asked is None:
        return _contained(_sent(request, file, range(file.size)), file)
    if not asked:
        response = HttpResponse(status=416, headers={"Content-Range": f"bytes */{file.size}"})
        return _contained(response, file)
    partial = _sent(request, file, asked)
    partial.status_code = 206
    partial.headers["Content-Range"] = f"bytes {asked.start}-{asked.stop - 1}/{file.size}"
    return _contained(partial, file)


def _sent(request: HttpRequest, file: StoredFile, wanted: range) -> HttpResponseBase:
    """Return the bytes of a range, read while they are sent; only their count if that is asked."""
    response: HttpResponseBase
    if request.method == "HEAD":
        response = HttpResponse()
    elif isinstance(request, ASGIRequest):
        response = StreamingHttpResponse(_pieces_later(file.digest, wanted))
    else:
        response = StreamingHttpResponse(_pieces(file.digest, wanted))
    response.headers["Content-Length"] = str(len(wanted))
    return response


def _asked_range(request: HttpRequest, file: StoredFile) -> range | None:
    """Return the one range that is asked for: None is the whole, an empty one cannot be met.

    A range of another version than this one, several at once, and what is no range of bytes are
    answered with the whole, as the standard allows.
    """
    if request.method != "GET":
        # Of a look at the head no part can be asked.
        return None
    if request.headers.get("If-Range", f'"{file.digest}"') != f'"{file.digest}"':
        return None
    found = _RANGE.match(request.headers.get("Range", "").strip())
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        return range(max(0, file.size - int(last)), file.size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(file.size, int(last) + 1 if last else file.size))


def _contained(response: HttpResponseBase, file: StoredFile) -> HttpResponseBase:
    """Say what the bytes are, and that nobody may guess otherwise, show them or keep them."""
    name = content_disposition_header(as_attachment=True, filename=file.name)
    # An answer that says that nothing has changed has no body, and so no type.
    typed = (
        {} if response.status_code == HTTPStatus.NOT_MODIFIED else {"Content-Type": file.media_type}
    )
    headers = typed | {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-store",
        "Content-Disposition": name or "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "ETag": f'"{file.digest}"',
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    for header, value in headers.items():
        response.headers[header] = value
    return response


def _pieces(digest: str, wanted: range) -> Iterator[bytes]:
    for start in wanted[::PIECE]:
        yield _piece(digest, start, min(PIECE, wanted.stop - start))


async def _pieces_later(digest: str, wanted: range) -> AsyncIterator[bytes]:
    for start in wanted[::PIECE]:
        length = min(PIECE, wanted.stop - start)
        yield await sync_to_async(_piece_and_let_go)(digest, start, length)


def _piece_and_let_go(digest: str, start: int, length: int) -> bytes:
    try:
        return _piece(digest, start, length)
    finally:
        connection.close()


def _piece(digest: str, start: int, length: int) -> bytes:
    piece = piece_of_blob(digest, start, length)
    if len(piece) != length:
        # The count is sent already: breaking the connection is what tells the reader.
        raise BrokenOff("A body was thrown away while it was being sent.")
    return piece
