"""What a model is told of a call names no host of this deployment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from apps.boundary.external import call_tool, open_external_run, run_of_token
from apps.core.internal import internal_hosts
from apps.domain.tooling import Reason, ToolFailure, ToolOk
from kaizen.environment import Environment
from tests.factories.effects import offer, own_tool
from tests.factories.rooms import make_agent, make_member, make_room

INSIDE = ("db7.inside.example", "valkey7.inside.example", "/run/inside/sandboxd.sock", "10.77.1.2")


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A deployment that is spread over machines, though its tests run on one."""
    internal_hosts.cache_clear()
    options = settings.DATABASES["default"]["OPTIONS"]
    with (
        monkeypatch.context() as patched,
        override_settings(
            REDIS_URL="redis://valkey7.inside.example:6379/0",
            KAIZEN_SANDBOXD_SOCKET="/run/inside/sandboxd.sock",
            KAIZEN_MODEL_URL="http://gpu7.internal/v1",
            KAIZEN_NPM_REGISTRY="https://packages.example.org",
            KAIZEN_INTERNAL_HOSTS=("10.77.0.0/16",),
        ),
    ):
        patched.setitem(options, "host", "db7.inside.example,localhost")
        internal_hosts()
    yield
    internal_hosts.cache_clear()


@pytest.mark.usefixtures("inside")
def test_the_hosts_are_those_that_the_settings_name() -> None:
    for host in (*INSIDE, "gpu7.internal"):
        assert host not in internal_hosts().hide(f"at {host} now")
    stays = "localhost packages.example.org 127.0.0.1"
    assert internal_hosts().hide(stays) == stays


ENDS = {
    "a value and its keys": ToolOk({host: [f"see {host}"] for host in INSIDE}),
    "a failure in a value": ToolOk({"error": f"no route to {' '.join(INSIDE)}"}),
    "a long failure in a value": ToolOk({"error": "x" * 1_980 + " " + " ".join(INSIDE)}),
    "a stated failure": ToolFailure(
        Reason.EXECUTION_ERROR,
        " ".join(INSIDE),
        details={host: host for host in INSIDE},
        saved=tuple(f"{host}.log" for host in INSIDE),
    ),
    "a failure of a store": ConnectionRefusedError(" ".join(INSIDE)),
    "a long failure inside": ValueError("x" * 180 + " " + " ".join(INSIDE)),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("end", ENDS)
def test_no_end_of_a_call_tells_of_them(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(context: Any, arguments: Any) -> Any:
        result = ENDS[end]
        if isinstance(result, Exception):
            raise result
        return result

    offer(monkeypatch, own_tool(handler))
    member = make_member("mara")
    room = make_room(member, make_agent(member, slug="scribe"))
    opened = open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
    run = run_of_token(opened.token)
    call = call_tool(run=run, name="own", arguments_text="{}", proposal_id="1").call
    call.refresh_from_db()
    told = json.dumps(call.projection)
    assert call.state == "settled"
    for host in ("7.inside", "run/inside", "10.77"):
        assert host not in told, told


def test_an_entry_that_names_nothing_stops_the_start() -> None:
    name = "KAIZEN_INTERNAL_HOSTS"
    with pytest.raises(ImproperlyConfigured, match=name):
        Environment({name: "db.internal, http://x"}).hosts(name)
    assert Environment({name: "db.internal, 10.0.0.0/8"}).hosts(name) == (
        "db.internal", "10.0.0.0/8",
    )  # fmt: skip
