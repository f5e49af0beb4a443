"""How do bytes that nobody vouches for leave Kaizen? As a file to save, never shown in place."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.http import content_disposition_header


def as_download(content: bytes, *, path: str) -> HttpResponse:
    """Return a file of a workspace in a form that no browser runs or guesses at."""
    response = HttpResponse(content, content_type="application/octet-stream")
    name = content_disposition_header(as_attachment=True, filename=path.rpartition("/")[2])
    response.headers["Content-Disposition"] = name or "attachment"
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "private, no-store"
    return response
