"""The OpenAPI document describes every address, and its page needs nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

SCHEMA = "/api/v1/schema/"


@pytest.fixture
def document(as_mara: APIClient) -> dict[str, Any]:
    response = as_mara.get(SCHEMA, headers={"accept": "application/vnd.oai.openapi+json"})
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def test_the_document_is_made_without_a_warning(tmp_path: Any) -> None:
    call_command(
        "spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "openapi.yaml")
    )


def test_every_operation_says_what_a_problem_looks_like(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "application/problem+json" in operation["responses"]["default"]["content"], (
                path,
                method,
            )
            assert operation.get("description") or operation.get("summary"), (path, method)


def test_every_address_is_described(document: dict[str, Any]) -> None:
    described = {re.sub(r"\{[^}]*\}", "{}", path) for path in document["paths"]}
    served = {
        re.sub(r"<[^>]*>", "{}", path)
        for path in addresses(get_resolver(), "/")
        if path.startswith("/api/v1/") and path not in (SCHEMA, "/api/v1/docs/")
    }
    assert served - described == set()


def test_creations_take_an_idempotency_key(document: dict[str, Any]) -> None:
    for path in ("/api/v1/rooms", "/api/v1/agents", "/api/v1/rooms/{room_id}/messages"):
        names = [p["name"] for p in document["paths"][path]["post"]["parameters"]]
        assert "Idempotency-Key" in names


def test_the_page_runs_under_the_content_policy(as_mara: APIClient, mara: Any) -> None:
    client = Client()
    client.force_login(mara)
    page = client.get("/api/v1/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    assert "script-src 'self'" in page["Content-Security-Policy"]
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert scripts
    for attributes, inline in scripts:
        assert "src=" in attributes
        assert inline.strip() == ""
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)


def test_strangers_read_no_document(db: None) -> None:
    assert Client().get(SCHEMA).status_code == 401
    page = Client().get("/api/v1/docs/")
    assert page.status_code == 302
    assert page["Location"].startswith("/sign-in/")


def addresses(resolver: Any, before: str) -> list[str]:
    found = []
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            found += addresses(entry, before + str(entry.pattern))
        elif isinstance(entry, URLPattern):
            found.append(before + str(entry.pattern))
    return found
