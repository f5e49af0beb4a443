"""Whatever goes wrong, the answer has one shape, a stable code, and tells no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.core.errors import Conflict
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member

ROOMS = "/api/v1/rooms"


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


@pytest.fixture
def client(mara: User) -> APIClient:
    return client_of(mara)


def post(client: APIClient, raw: bytes, content_type: str = "application/json") -> Any:
    return client.generic("POST", ROOMS, raw, content_type=content_type)


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"{", "syntax"),
        (b"{'name': 'x'}", "syntax"),
        (b'{"name": "a", "name": "b"}', "duplicate_key"),
        (b'{"name": NaN}', "number"),
        (b'{"name": 1e999}', "number"),
        (b'{"name": "\\ud800"}', "surrogate"),
        (b'{"name": "\xff"}', "encoding"),
        (b"[" * 100 + b"]" * 100, "depth"),
    ],
)
def test_malformed_json_is_refused_with_its_rule(client: APIClient, raw: bytes, rule: str) -> None:
    body = problem(post(client, raw), 400, "malformed_json")
    assert body["rule"] == rule


def test_a_body_beyond_the_limit_is_refused(client: APIClient) -> None:
    raw = json.dumps({"name": "x" * (256 * 1024)}).encode()
    problem(post(client, raw), 413, "too_large")


@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"3", b"null", b"true"])
def test_a_body_that_is_no_object_is_refused(client: APIClient, raw: bytes) -> None:
    problem(post(client, raw), 422, "invalid")


def test_unknown_fields_are_refused_by_name(client: APIClient) -> None:
    response = client.post(ROOMS, {"name": "Plans", "owner": 7, "admin": True})
    body = problem(response, 422, "invalid")
    assert body["field"] == "owner"
    assert [(e["field"], e["rule"]) for e in body["errors"]] == [
        ("owner", "unknown_field"),
        ("admin", "unknown_field"),
    ]


def test_errors_name_field_and_rule(client: APIClient) -> None:
    body = problem(client.post(ROOMS, {}), 422, "invalid")
    assert body["errors"][0]["field"] == "name"
    assert body["errors"][0]["rule"] == "required"
    body = problem(client.post(ROOMS, {"name": "x" * 121}), 422, "invalid")
    assert body["errors"][0]["rule"] == "max_length"
    body = problem(client.post(ROOMS, {"name": 7}), 422, "invalid")
    assert body["errors"][0]["rule"] == "not_text"
    body = problem(client.post(ROOMS, {"name": "a\x00b"}), 422, "invalid")
    assert body["errors"][0]["rule"] == "null_characters_not_allowed"


def test_a_hostile_field_name_comes_back_short(client: APIClient) -> None:
    many = {f"{'x' * 500}{n}": 1 for n in range(100)}
    response = client.post(ROOMS, {"name": "Plans", **many})
    body = problem(response, 422, "invalid")
    assert len(body["errors"]) <= 20
    assert len(response.content) < 10_000


def test_unknown_and_repeated_query_parameters_are_refused(client: APIClient) -> None:
    body = problem(client.get("/api/v1/runs?stat=queued"), 422, "invalid")
    assert body["errors"][0]["rule"] == "unknown_field"
    body = problem(client.get("/api/v1/runs?state=queued&state=parked"), 422, "invalid")
    assert body["errors"][0]["rule"] == "repeated"
    problem(client.get("/api/v1/runs?state=sleeping"), 422, "invalid")
    problem(client.get("/api/v1/runs?room=%00"), 422, "invalid")


def test_the_media_type_must_be_json(client: APIClient) -> None:
    problem(
        post(client, b"name=x", "application/x-www-form-urlencoded"), 415, "unsupported_media_type"
    )
    problem(post(client, b"<a/>", "text/xml"), 415, "unsupported_media_type")


def test_what_cannot_be_sent_as_wanted_is_refused(client: APIClient) -> None:
    problem(client.get(ROOMS, headers={"accept": "text/html"}), 406, "not_acceptable")


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options"])
def test_other_methods_are_refused(client: APIClient, method: str) -> None:
    response = getattr(client, method)(ROOMS)
    problem(response, 405, "method_not_allowed")
    assert "GET" in response["Allow"]


@pytest.mark.parametrize(
    "path", ["/api/", "/api/v1/", "/api/v2/rooms", "/api/v1/rooms/", "/api/v1/rooms/7"]
)
def test_an_address_that_leads_nowhere_is_a_problem_too(client: APIClient, path: str) -> None:
    problem(client.get(path), 404, "not_found")
    problem(client_of().post(path, {"a": 1}), 404, "not_found")


def test_nobody_gets_in_without_signing_in(db: None) -> None:
    response = client_of().get(ROOMS)
    problem(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"] == "Bearer"


def test_a_session_needs_its_csrf_token(mara: User) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(mara)
    assert client.get(ROOMS).status_code == 200
    problem(client.post(ROOMS, {"name": "Plans"}), 403, "forbidden")


def test_a_foreign_host_is_refused(client: APIClient) -> None:
    problem(client.get(ROOMS, headers={"host": "evil.example"}), 400, "malformed")


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (Http404("No Room matches the given query: secret"), 404, "not_found"),
        (PermissionDenied("secret"), 403, "forbidden"),
        (SuspiciousOperation("secret"), 400, "malformed"),
        (OperationalError("connection to secret failed"), 503, "unavailable"),
        (RuntimeError("secret"), 500, "internal_error"),
        (KeyError("secret"), 500, "internal_error"),
    ],
)
def test_what_fails_inside_is_said_without_a_secret(
    client: APIClient,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    status: int,
    code: str,
) -> None:
    from apps.rooms.api import views

    def fail(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(views, "create_room", fail)
    response = client.post(ROOMS, {"name": "Plans"})
    problem(response, status, code)
    assert b"secret" not in response.content


def test_a_refusal_is_worded_by_its_rule_and_bounded(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.rooms.api import views

    def fail(*_: Any, **__: Any) -> None:
        raise Conflict("No. " * 1000, field="name", extra={"retry_after": 3, "status": 1})

    monkeypatch.setattr(views, "create_room", fail)
    response = client.post(ROOMS, {"name": "Plans"})
    body = problem(response, 409, "conflict")
    assert body["field"] == "name"
    assert response["Retry-After"] == "3"
