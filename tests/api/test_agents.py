"""Agents, their grants and packages over the API."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.domain.manifests import parse_manifest
from apps.packages.models import PackageVersion
from apps.packages.services import publish_package
from tests.factories import packages as made
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_agent

AGENTS = "/api/v1/agents"
NEW = {
    "slug": "scribe",
    "name": "Scribe",
    "description": "Writes things down.",
    "persona": "You write.\n",
    "ceiling": ["packages.call", "artifacts.write"],
    "model_name": "",
}


@pytest.fixture
def version(mara: User, tomas: User) -> PackageVersion:
    return publish_package(
        manifest=parse_manifest(made.manifest()),
        files=made.tree(),
        author=mara,
        admitted_by=tomas,
    )


def test_an_agent_is_made_read_changed_and_switched_off(as_mara: APIClient) -> None:
    response = as_mara.post(AGENTS, NEW)
    assert response.status_code == 201
    body = response.json()
    assert {name: body[name] for name in NEW} == {
        **NEW,
        "ceiling": ["artifacts.write", "packages.call"],
    }
    assert (body["enabled"], body["revision"], body["managed"]) == (True, 1, True)
    url = f"{AGENTS}/scribe"
    changed = as_mara.patch(url, {"name": "Clerk", "revision": 1}).json()
    assert (changed["name"], changed["revision"]) == ("Clerk", 2)
    problem(as_mara.patch(url, {"name": "Other", "revision": 1}), 409, "stale_revision")
    assert as_mara.delete(url).status_code == 204
    assert as_mara.get(url).json()["enabled"] is False
    assert as_mara.patch(url, {"enabled": True}).json()["enabled"] is True


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slug": "Not A Slug"}, "slug"),
        ({"ceiling": ["everything"]}, "ceiling"),
        ({"ceiling": "docs.read"}, "ceiling"),
        ({"ceiling": [1]}, "ceiling.0"),
        ({"ceiling": ["docs.read"] * 51}, "ceiling"),
        ({"name": None}, "name"),
        ({"owner": 1}, "owner"),
        ({"enabled": False}, "enabled"),
    ],
)
def test_a_bad_agent_is_refused_by_field(
    as_mara: APIClient, change: dict[str, Any], field: str
) -> None:
    body = problem(as_mara.post(AGENTS, {**NEW, **change}), 422, "invalid")
    assert body["field"] == field
    assert not Agent.objects.exists()


def test_a_taken_slug_is_a_conflict(as_mara: APIClient, as_tomas: APIClient) -> None:
    assert as_mara.post(AGENTS, NEW).status_code == 201
    problem(as_tomas.post(AGENTS, NEW), 409, "slug_taken")


def test_who_only_uses_an_agent_does_not_read_its_persona(
    as_mara: APIClient, as_tomas: APIClient, tomas: User
) -> None:
    as_mara.post(AGENTS, NEW)
    url = f"{AGENTS}/scribe"
    shared = as_mara.post(f"{url}/shares", {"username": tomas.username})
    assert (shared.status_code, shared.json()["username"]) == (201, tomas.username)
    body = as_tomas.get(url).json()
    assert (body["persona"], body["managed"]) == (None, False)
    problem(as_tomas.patch(url, {"name": "Mine"}), 403, "forbidden")
    problem(as_tomas.delete(url), 403, "forbidden")
    problem(as_tomas.post(f"{url}/shares", {"username": "x"}), 403, "forbidden")
    assert as_mara.delete(f"{url}/shares/{tomas.username}").status_code == 204
    problem(as_tomas.get(url), 404, "not_found")


def test_who_manages_an_agent_sees_with_whom_it_is_shared(
    as_mara: APIClient, as_tomas: APIClient, as_stranger: APIClient, tomas: User, stranger: User
) -> None:
    as_mara.post(AGENTS, NEW)
    url = f"{AGENTS}/scribe/shares"
    assert as_mara.get(url).json()["results"] == []
    as_mara.post(url, {"username": tomas.username, "role": "collaborator"})
    as_tomas.post(url, {"username": stranger.username})
    seen = {one["username"]: one["role"] for one in as_tomas.get(url).json()["results"]}
    assert seen == {tomas.username: "collaborator", stranger.username: "guest"}
    problem(as_stranger.get(url), 403, "forbidden")
    as_mara.delete(f"{url}/{tomas.username}")
    problem(as_tomas.get(url), 404, "not_found")
    assert [one["username"] for one in as_mara.get(url).json()["results"]] == [stranger.username]


def test_tools_are_granted_and_revoked(as_mara: APIClient, version: PackageVersion) -> None:
    as_mara.post(AGENTS, NEW)
    url = f"{AGENTS}/scribe/grants"
    tool = version.tools.get().name
    response = as_mara.post(url, {"ref": version.ref, "tool": tool})
    assert response.status_code == 201
    body = response.json()
    assert (body["tool"], body["ref"], body["package"], body["usable"]) == (
        tool,
        version.ref,
        "weather",
        True,
    )
    assert as_mara.get(url).json()["results"] == [body]
    problem(as_mara.post(url, {"ref": "weather@9.9.9", "tool": tool}), 404, "not_found")
    problem(as_mara.post(url, {"ref": version.ref}), 422, "invalid")
    assert as_mara.delete(f"{url}/{tool}").status_code == 204
    problem(as_mara.delete(f"{url}/{tool}"), 404, "not_found")


def test_packages_are_found_by_name(as_tomas: APIClient, version: PackageVersion) -> None:
    listed = as_tomas.get("/api/v1/packages").json()["results"]
    assert [row["name"] for row in listed] == ["weather"]
    assert as_tomas.get("/api/v1/packages/weather").json()["active"]["ref"] == version.ref
    for name in ("other", "weather%00", "Weather", "a" * 300):
        problem(as_tomas.get(f"/api/v1/packages/{name}"), 404, "not_found")


def test_lists_cost_the_same_for_many_as_for_one(
    mara: User, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        make_agent(mara)
    client = client_of(mara)
    with django_assert_max_num_queries(2):
        assert len(client.get(AGENTS).json()["results"]) == 5
