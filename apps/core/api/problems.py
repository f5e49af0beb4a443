"""How does the API say that something went wrong? One shape, stable codes, and no leak."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import redis
import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse, UnreadablePostError
from rest_framework import exceptions
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from apps.core.correlation import current_correlation_id
from apps.core.errors import Forbidden, NotFound, Refusal
from apps.core.throttles import Throttled

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
MAX_DETAIL = 500
MAX_ERRORS = 20

_TOKEN_IN_PATH = re.compile(r"(/pauses/)[^/]+")
NOTHING_HERE = "There is nothing at this address that you may see."
_OURS = frozenset({"type", "title", "status", "code", "detail", "field", "errors"})
# What the framework says, in our words: a stable code for each, whatever its own is called.
_CODES: dict[type[exceptions.APIException], str] = {
    exceptions.ParseError: "malformed",
    exceptions.AuthenticationFailed: "authentication_failed",
    exceptions.NotAuthenticated: "not_authenticated",
    exceptions.PermissionDenied: "forbidden",
    exceptions.NotFound: "not_found",
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.NotAcceptable: "not_acceptable",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
    exceptions.Throttled: "throttled",
}


def problem(
    *,
    status: int,
    code: str,
    detail: str,
    field: str | None = None,
    errors: list[dict[str, str]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the members of one problem, bounded."""
    body: dict[str, Any] = {
        "type": f"urn:kaizen:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": _bounded(detail, MAX_DETAIL),
    }
    if field:
        body["field"] = _bounded(field, 100)
    if errors:
        body["errors"] = errors[:MAX_ERRORS]
    body.update({name: value for name, value in (extra or {}).items() if name not in _OURS})
    body["correlation_id"] = current_correlation_id()
    return body


def problem_response(*, status: int, code: str, detail: str) -> HttpResponse:
    """Return a problem from a view that stands outside the REST framework."""
    body = problem(status=status, code=code, detail=detail)
    return HttpResponse(JSONRenderer().render(body), status=status, content_type=CONTENT_TYPE)


_on_refusal: list[Callable[[str, str, Refusal], None]] = []


def on_refusal(tell: Callable[[str, str, Refusal], None]) -> None:
    """Have `tell(actor, route, refusal)` called for each API request that was refused.

    That is what was forbidden, and what asked for something that is not there or not theirs to see:
    the two look alike, and are written down alike. Of what comes too often it is the first alone:
    a flood must not become a flood of rows.
    """
    _on_refusal.append(tell)


def problem_handler(exc: Exception, context: Mapping[str, Any]) -> Response:
    """Answer any exception of an API view; what nobody foresaw is logged and only said to be so."""
    headers: dict[str, str] = {}
    if isinstance(exc, Forbidden | NotFound) or (isinstance(exc, Throttled) and exc.first):
        _tell_of_refusal(exc, context)
    if isinstance(exc, Refusal):
        body = problem(
            status=exc.status,
            code=exc.code,
            detail=exc.message,
            field=exc.field,
            errors=exc.extra.get("errors"),
            extra=exc.extra,
        )
        if challenge := getattr(exc, "challenge", ""):
            headers["WWW-Authenticate"] = challenge
        if "retry_after" in exc.extra:
            headers["Retry-After"] = str(exc.extra["retry_after"])
    elif isinstance(exc, exceptions.ValidationError):
        body = _invalid(exc)
    elif isinstance(exc, exceptions.APIException):
        body, headers = _from_framework(exc)
    else:
        body, headers = _from_elsewhere(exc, context)
    return Response(body, status=body["status"], headers=headers, content_type=CONTENT_TYPE)


def _tell_of_refusal(exc: Refusal, context: Mapping[str, Any]) -> None:
    request = context["request"]
    actor = getattr(request.user, "key", "") or "user:unknown"
    # Another system answers a waiting call under its token.
    path = _TOKEN_IN_PATH.sub(r"\1[hidden]", request.path)
    route = f"route:{request.method} {path}"[:160]
    for tell in _on_refusal:
        tell(actor, route, exc)


def _from_framework(exc: exceptions.APIException) -> tuple[dict[str, Any], dict[str, str]]:
    usual = next((word for kind, word in _CODES.items() if isinstance(exc, kind)), "refused")
    code = getattr(exc, "problem_code", usual)
    headers = {}
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(int(wait))
    detail = NOTHING_HERE if code == "not_found" else str(exc.detail)
    return problem(status=exc.status_code, code=code, detail=detail), headers


def _from_elsewhere(
    exc: Exception, context: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    if isinstance(exc, Http404):
        return problem(status=404, code="not_found", detail=NOTHING_HERE), {}
    if isinstance(exc, PermissionDenied):
        return problem(status=403, code="forbidden", detail="You may not do this."), {}
    if isinstance(exc, RequestDataTooBig):
        return problem(status=413, code="too_large", detail="The request is too large."), {}
    if isinstance(exc, SuspiciousOperation | UnreadablePostError):
        return problem(status=400, code="malformed", detail="The request cannot be read."), {}
    view = type(context.get("view")).__name__
    if isinstance(exc, OperationalError | InterfaceError | redis.RedisError):
        log.error("api_store_away", view=view, exc_info=exc)
        detail = "A part that this needs is away or busy. Try again soon."
        return problem(status=503, code="unavailable", detail=detail), {"Retry-After": "2"}
    log.error("api_failed", view=view, exc_info=exc)
    detail = "Something failed here. Whoever runs this Kaizen finds it by the correlation id."
    return problem(status=500, code="internal_error", detail=detail), {}


def _invalid(exc: exceptions.ValidationError) -> dict[str, Any]:
    errors = []
    for field, error in _flat(exc.detail, ()):
        rule = getattr(error, "code", None) or "invalid"
        errors.append(
            {"field": _bounded(field, 100), "rule": rule, "detail": _bounded(str(error), 200)}
        )
        if len(errors) == MAX_ERRORS:
            break
    first = errors[0] if errors else {"field": "", "detail": "The input breaks a rule."}
    named = f"{first['field']}: {first['detail']}" if first["field"] else first["detail"]
    return problem(status=422, code="invalid", detail=named, field=first["field"], errors=errors)


def _flat(detail: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Walk the framework's nested errors, naming each place as `outer.inner.0`."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from _flat(inner, path if name == "non_field_errors" else (*path, str(name)))
    elif isinstance(detail, list | tuple):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, Mapping | list | tuple)
            yield from _flat(inner, (*path, str(index)) if nested else path)
    else:
        yield ".".join(path), detail


def _bounded(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
