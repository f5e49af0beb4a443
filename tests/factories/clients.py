"""Programs that speak to the API, and what they expect when it says no."""

from __future__ import annotations

import json
from typing import Any

from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.tokens import make_token


def client_of(user: User | None = None) -> APIClient:
    """A program with a member's token, or with none; a failure inside is answered, not raised."""
    client = APIClient(raise_request_exception=False)
    if user is not None:
        _, text = make_token(user=user)
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the problem of an answer, once it has the form that every problem has."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(response.content)
    assert body["status"] == status
    assert body["code"] == code, body
    assert body["type"] == f"urn:kaizen:problem:{code}"
    assert body["title"]
    assert 0 < len(body["detail"]) <= 500
    assert body["correlation_id"] == response["X-Correlation-ID"]
    return body


def without_correlation(response: Any) -> bytes:
    """Return the bytes of an answer with its correlation id blanked, to compare two of them."""
    content: bytes = response.content
    return content.replace(response["X-Correlation-ID"].encode(), b"-")
