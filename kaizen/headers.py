"""Which headers does every answer carry, whoever made it?"""

from collections.abc import Awaitable, Callable

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

_PAGES = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
# The admin's theme evaluates small expressions in its markup; its pages run no model-made code.
_ADMIN = _PAGES.replace("script-src 'self'", "script-src 'self' 'unsafe-inline' 'unsafe-eval'")
_PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"


class SafeHeadersMiddleware:
    """Set the content policy, unless the view set a stricter one, and name the correlation id."""

    sync_capable = True
    async_capable = True

    def __init__(
        self,
        get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]],
    ) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        answer = self.get_response(request)
        if isinstance(answer, HttpResponseBase):
            return _dress(request, answer)
        return self._later(request, answer)

    async def _later(
        self, request: HttpRequest, answer: Awaitable[HttpResponseBase]
    ) -> HttpResponseBase:
        return _dress(request, await answer)


def _dress(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    policy = _ADMIN if request.path.startswith("/admin/") else _PAGES
    response.headers.setdefault("Content-Security-Policy", policy)
    response.headers.setdefault("Permissions-Policy", _PERMISSIONS)
    correlation = structlog.contextvars.get_contextvars().get("correlation_id")
    if correlation:
        response.headers["X-Correlation-ID"] = correlation
    return response
