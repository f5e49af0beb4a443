"""What does Kaizen answer outside every app: probes, and addresses that lead nowhere?"""

from __future__ import annotations

import hmac
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views import defaults
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from apps.core.api.problems import NOTHING_HERE, problem_response
from apps.core.gauges import exposition
from apps.core.health import look_around

API = "/api/"


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Say that this process lives and answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Say whether everything that requests need is there, and which part is not."""
    parts = look_around()
    ready = all(part.holds for part in parts)
    body: dict[str, Any] = {
        "status": "ready" if ready else "unavailable",
        "parts": {part.name: part.word.value for part in parts},
    }
    # Who asks is in the database, so while that is away nobody is an administrator.
    if parts[0].holds and parts[1].holds and _is_administrator(request):
        body["details"] = {part.name: part.story for part in parts}
    return JsonResponse(body, status=200 if ready else 503)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Hand out what is measured, to the scraper that holds the token or to an administrator."""
    if not (_holds_metrics_token(request) or _is_administrator(request)):
        # Without a token of its own, this address is nobody's business.
        if not settings.KAIZEN_METRICS_TOKEN:
            return HttpResponse("Nothing is here.\n", status=404, content_type="text/plain")
        refused = HttpResponse("A token is needed.\n", status=401, content_type="text/plain")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def _holds_metrics_token(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    wanted = settings.KAIZEN_METRICS_TOKEN
    return (
        bool(wanted)
        and scheme.lower() == "bearer"
        and hmac.compare_digest(given.strip().encode(), wanted.encode())
    )


@csrf_exempt
def no_such_address(request: HttpRequest) -> HttpResponse:
    """Answer an API address that leads nowhere."""
    return problem_response(status=404, code="not_found", detail=NOTHING_HERE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer a request that Django refused to read."""
    if request.path.startswith(API):
        return problem_response(status=400, code="malformed", detail="The request cannot be read.")
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer an address that leads nowhere."""
    if request.path.startswith(API):
        return no_such_address(request)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Answer a failure that no view caught."""
    if request.path.startswith(API):
        return problem_response(
            status=500,
            code="internal_error",
            detail="Something failed here. Whoever runs this Kaizen finds it by the"
            " correlation id.",
        )
    return defaults.server_error(request)


def _is_administrator(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return bool(user is not None and user.is_active and user.is_staff)
