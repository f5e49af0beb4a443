"""The Pi package of the documentation, as its author, a reviewer and an agent meet it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.models import User
from apps.domain.manifests import parse_manifest
from apps.domain.packagetree import MANIFEST_NAME
from apps.proposals import services
from apps.tools.packaged import call_packaged
from kaizen.supervisor.state import CLONE
from tests.factories.rooms import make_member
from tests.sandboxd.conftest import daemon, sandbox_home
from tests.sandboxd.daemon import Daemon

__all__ = ["daemon", "sandbox_home"]

DICE = CLONE / "examples" / "dice"
pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]


def files() -> dict[str, bytes]:
    return {
        path.relative_to(DICE).as_posix(): path.read_bytes()
        for path in DICE.rglob("*")
        if path.is_file() and path.name != MANIFEST_NAME
    }


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DICE / MANIFEST_NAME).read_bytes())
    return found


@pytest.fixture
def member(daemon: Daemon, settings: Any) -> User:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    return make_member("mara")


def test_the_package_passes_and_rolls(member: User) -> None:
    proposal = services.create_proposal(author=member, manifest=manifest(), files=files())
    test = services.request_test(proposal_id=proposal.pk, member=member)
    services.execute_test(test_id=test.pk)
    test.refresh_from_db()
    assert (test.state, test.ran) == ("passed", 2), test.explanation
    assert test.surface["tools"] == ["roll"]
    assert [one["name"] for one in test.surface["skills"]] == ["fair-rolling"]
    read = parse_manifest(manifest())
    reply = call_packaged(read.tools[0], read, files(), {"sides": 6, "times": 3}, deadline_s=60)
    assert reply.ok, reply
    assert isinstance(reply.value, dict)
    details = reply.value["details"]
    assert isinstance(details, dict)
    rolled = details["rolled"]
    assert isinstance(rolled, list)
    assert len(rolled) == 3
    assert set(rolled) <= set(range(1, 7))


def test_the_package_checks_out_without_running(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("tools", "check", str(DICE))
    assert "dice" in capsys.readouterr().out
