"""Whatever stands in a request, the answer is a bounded problem and never a failure inside.

The addresses, parameters and fields come from the OpenAPI document, so a new one is attacked as
soon as it is described.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.boundary.external import open_external_run
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from tests.factories.automations import make_automation
from tests.factories.clients import client_of
from tests.factories.questions import make_question

NUL = "a\x00b"
# As JSON text: half a character has no UTF-8 form, and these numbers no column.
ODD_JSON = (
    json.dumps(NUL),
    json.dumps({"a": NUL, NUL: 1}),
    json.dumps([NUL]),
    '"\\ud800"',
    "1" * 40,
    "-1",
    "1e308",
    "null",
    "true",
    "[]",
    "{}",
    '"' + "x" * 30_000 + '"',
    '"\\u202e\\ufeff\\u0301"',
    "[" * 60 + "]" * 60,
)
_numbers = itertools.count(1)
ODD_QUERY = (NUL, "1" * 400, "-1", "²", "٣", "\ufffd", "null", "", " ", "x" * 2000, "%", "'\"")


@pytest.fixture
def ids(room: Room, run: Run, call: Call, artifact: Artifact, agent: Agent, tomas: Any) -> Any:
    return {
        "room_id": room.pk,
        "run_id": run.pk,
        "call_id": call.pk,
        "artifact_id": artifact.pk,
        "approval_id": make_question(run).pk,
        "automation_id": make_automation(run.member, agent, room).automation.pk,
        "number": 1,
        "slug": agent.slug,
        "username": tomas.username,
    }


@pytest.fixture
def clients(mara: Any, room: Room, agent: Agent, settings: Any) -> dict[bool, APIClient]:
    """A member's program, and another runtime's for the callback."""
    settings.KAIZEN_API_PER_MINUTE = 1_000_000
    runtime = APIClient(raise_request_exception=False)
    opened = open_external_run(room_id=room.pk, member=mara, agent_slug=agent.slug)
    runtime.credentials(HTTP_AUTHORIZATION=f"Run {opened.token}")
    return {False: client_of(mara), True: runtime}


@pytest.fixture
def operations(as_mara: APIClient) -> list[tuple[str, str, Any]]:
    document = as_mara.get(
        "/api/v1/schema/", headers={"accept": "application/vnd.oai.openapi+json"}
    ).json()
    return [
        (path, method, {**operation, "document": document})
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        # What is deleted could not be attacked any more.
        if method != "delete"
    ]


def fields_of(operation: Any) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = operation["document"]["components"]["schemas"][schema["$ref"].split("/")[-1]]
    found: dict[str, Any] = schema.get("properties", {})
    return found


def plausible(schema: Any) -> Any:
    """A value of the right type, so that the odd one beside it is reached."""
    kind = schema.get("type")
    some = {"integer": 1, "boolean": True, "array": [], "object": {}}
    # New each time: a proposal id or a slug that was seen before would hide what comes after.
    return some.get(kind, f"plain-{next(_numbers)}")


def bodies(operation: Any) -> Iterator[str]:
    fields = fields_of(operation)
    yield from ODD_JSON
    for name in fields:
        for odd in ODD_JSON:
            members = [f"{json.dumps(name)}: {odd}"]
            for other, schema in fields.items():
                if other != name:
                    members.append(f"{json.dumps(other)}: {json.dumps(plausible(schema))}")
            yield "{" + ", ".join(members) + "}"


def address(path: str, ids: Any) -> str:
    for name, value in ids.items():
        path = path.replace("{" + name + "}", str(value))
    while "{" in path:
        path = f"{path[: path.index('{')]}{uuid.uuid4()}{path[path.index('}') + 1 :]}"
    return path


def is_answered(response: Any) -> bool:
    if response.status_code < 400:
        return True
    problem = response["Content-Type"] == "application/problem+json"
    return response.status_code < 500 and problem and len(response.content) < 8_000


def test_odd_bodies_are_answered_with_a_problem(
    operations: Any, clients: dict[bool, APIClient], ids: Any
) -> None:
    sent = 0
    unanswered = []
    for path, method, operation in operations:
        if method == "get" or path.endswith(("/close", "/stop", "/finish")):
            continue
        client = clients["/callback/" in path]
        for body in bodies(operation):
            url = address(path, ids)
            response = client.generic(method, url, body, content_type="application/json")
            if not is_answered(response):
                unanswered.append((method, path, body[:200], response.status_code))
            sent += 1
    assert sent > 500
    assert unanswered == []


# The address where one waits gives its connection back, and with it a test's transaction.
@pytest.mark.django_db(transaction=True)
def test_odd_queries_are_answered_with_a_problem(
    operations: Any, clients: dict[bool, APIClient], ids: Any
) -> None:
    unanswered = []
    for path, method, operation in operations:
        if method != "get":
            continue
        named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "query"}
        # Nobody reads what is not described, so all of that may stand in one address.
        undescribed = {"cursor", "page_size", "wait", "odd"} - named
        for names, odd in itertools.product([*({name} for name in named), undescribed], ODD_QUERY):
            url = address(path, ids)
            response = clients["/callback/" in path].get(url, dict.fromkeys(names, odd))
            if not is_answered(response):
                unanswered.append((path, names, odd, response.status_code))
    assert unanswered == []
