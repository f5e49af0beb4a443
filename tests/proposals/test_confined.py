"""Does a draft's test really run, confined, and say what it saw?"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.proposals import services
from apps.proposals.models import PackageProposal, ProposalTest
from apps.proposals.selectors import current_receipt
from tests.factories import packages as made
from tests.sandboxd.conftest import daemon, sandbox_home
from tests.sandboxd.daemon import Daemon

__all__ = ["daemon", "sandbox_home"]

pytestmark = [pytest.mark.sandbox, pytest.mark.django_db(transaction=True)]

SLOW = b"""import sys
import time
import unittest


class Slow(unittest.TestCase):
    def test_slowly(self):
        print("half way", file=sys.stderr, flush=True)
        time.sleep(4)
"""
REACHING = b"""import os
import socket
import unittest


class Reaching(unittest.TestCase):
    def test_out(self):
        words = ("SECRET", "KEY", "DATABASE", "REDIS")
        self.assertFalse([name for name in os.environ if any(word in name for word in words)])
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", 5432), timeout=1)
"""


def run(proposal: PackageProposal, member: User) -> ProposalTest:
    test = services.request_test(proposal_id=proposal.pk, member=member)
    services.execute_test(test_id=test.pk)
    test.refresh_from_db()
    return test


@pytest.fixture(autouse=True)
def supervised(settings: Any, daemon: Daemon) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)


def test_green_tests_are_a_receipt(draft: PackageProposal, author: User) -> None:
    test = run(draft, author)
    assert (test.state, test.ran, test.failed) == ("passed", 1, 0), test.output
    assert test.runtime.startswith("Python 3.")
    assert current_receipt(draft) == test


def test_red_tests_are_none_and_their_output_is_kept(author: User) -> None:
    proposal = services.create_proposal(
        author=author,
        manifest=made.manifest(),
        files=made.tree(weather_py=b"def convert(arguments):\n    return {}\n"),
    )
    test = run(proposal, author)
    assert (test.state, test.ran, test.failed) == ("failed", 1, 1)
    assert "AssertionError" in test.output
    assert current_receipt(proposal) is None


def test_the_tests_reach_nothing(author: User) -> None:
    proposal = services.create_proposal(
        author=author, manifest=made.manifest(), files=made.tree(test_weather_py=REACHING)
    )
    test = run(proposal, author)
    assert test.state == "passed", test.output


def test_a_change_while_the_tests_run_stops_them(author: User, monkeypatch: Any) -> None:
    proposal = services.create_proposal(
        author=author, manifest=made.manifest(), files=made.tree(test_weather_py=SLOW)
    )
    monkeypatch.setattr("apps.proposals.pulse._TICK", 0.1)
    test = services.request_test(proposal_id=proposal.pk, member=author)
    seen: list[str] = []

    def change_when_half_way() -> None:
        for _ in range(200):
            output = ProposalTest.objects.get(pk=test.pk).output
            if "half way" in output:
                seen.append(output)
                services.replace_draft(
                    proposal_id=proposal.pk, author=author, revision=1, files=made.tree()
                )
                break
            time.sleep(0.05)
        connection.close()

    watcher = threading.Thread(target=change_when_half_way)
    watcher.start()
    services.execute_test(test_id=test.pk)
    watcher.join(20)
    test.refresh_from_db()
    assert seen
    assert test.state == "error"
    assert "changed before" in test.explanation


def test_a_receipt_keeps_what_the_programs_stood_on(author: User) -> None:
    raw = made.manifest()
    program = {"command": "tools/run", "args": [], "execution_paths": ["tools/run"]}
    raw["tools"][0]["entry"] = {"protocol": "json", **program}
    script = b"#!/bin/sh\n"
    proposal = services.create_proposal(
        author=author, manifest=raw, files={**made.tree(), "tools/run": script}
    )
    test = run(proposal, author)
    assert test.state == "passed"
    pins = {"convert_weather": {"tools/run": hashlib.sha256(script).hexdigest()}}
    assert test.surface == {"executionPaths": pins}
