"""How are a draft's own tests run, once, and by whom?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.core.models import Blob
from apps.proposals import services
from apps.proposals.errors import NotADraft, ProposalNotFound
from apps.proposals.models import PackageProposal, ProposalTest
from apps.proposals.pulse import TAIL_CHARACTERS, Pulse
from apps.proposals.selectors import current_receipt, ready_tests
from apps.sandbox.client import Reason
from apps.sandbox.errors import JobRefused, SandboxUnavailable
from apps.sandbox.runner import TestReport
from tests.factories import packages as made

pytestmark = pytest.mark.django_db

Run = Callable[..., TestReport]


def report(**changes: Any) -> TestReport:
    """What a green run of three tests says."""
    fields: dict[str, Any] = {
        "passed": True,
        "ran": 3,
        "failed": 0,
        "skipped": 0,
        "sentence": "3 tests ran and none failed.",
        "output_tail": "OK\n",
        "reason": Reason.OK,
        "runtime": "Python 3.11.2",
        "duration_ms": 412,
    }
    return TestReport(**{**fields, **changes})


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], list[dict[str, Any]]]:
    """Put something in the sandbox's place, and note what it was asked."""
    # The test's own transaction has to survive the connection's release.
    monkeypatch.setattr("apps.proposals.services.testing.connection.close", lambda: None)
    asked: list[dict[str, Any]] = []

    def install(run: Run) -> list[dict[str, Any]]:
        def noted(**job: Any) -> TestReport:
            asked.append(job)
            return run(**job)

        monkeypatch.setattr("apps.proposals.examination.run_unittests", noted)
        monkeypatch.setattr("apps.proposals.pulse._TICK", 3600)
        return asked

    return install


@pytest.fixture
def queued(draft: PackageProposal, author: User) -> ProposalTest:
    return services.request_test(proposal_id=draft.pk, member=author)


def test_a_queued_test_is_ready_and_names_its_bytes(
    queued: ProposalTest, draft: PackageProposal
) -> None:
    assert list(ready_tests(10)) == [queued.pk]
    assert (queued.artifact_hash, queued.contract_digest) == (
        draft.artifact_hash,
        draft.contract_digest,
    )


def test_asking_twice_gives_the_test_under_way(
    queued: ProposalTest, draft: PackageProposal, author: User
) -> None:
    assert services.request_test(proposal_id=draft.pk, member=author) == queued
    assert ProposalTest.objects.count() == 1


def test_a_green_run_is_the_receipt(
    queued: ProposalTest, draft: PackageProposal, sandbox: Any
) -> None:
    asked = sandbox(lambda **_: report())
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert queued.state == "passed"
    assert (queued.ran, queued.failed, queued.milliseconds) == (3, 0, 412)
    assert queued.runtime == "Python 3.11.2, confined"
    assert current_receipt(draft) == queued
    assert dict(asked[0]["tree"]) == made.tree()
    assert asked[0]["correlation"] == queued.correlation_id
    assert list(ready_tests(10)) == []


def test_a_test_runs_once(queued: ProposalTest, sandbox: Any) -> None:
    asked = sandbox(lambda **_: report())
    services.execute_test(test_id=queued.pk)
    services.execute_test(test_id=queued.pk)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ({"reason": Reason.EXIT, "failed": 1, "sentence": "1 of 3 tests failed."}, "failed"),
        ({"reason": Reason.WALL_TIMEOUT, "sentence": "Too slow."}, "failed"),
        ({"reason": Reason.MEMORY_LIMIT, "sentence": "Too big."}, "failed"),
        ({"reason": Reason.OK, "ran": 0, "sentence": "No test ran."}, "failed"),
        ({"reason": Reason.DRIVER_FAILED, "sentence": "The sandbox failed."}, "error"),
        ({"reason": Reason.CANCELLED, "sentence": "Cancelled."}, "error"),
    ],
)
def test_whatever_is_not_green_gives_no_receipt(
    queued: ProposalTest,
    draft: PackageProposal,
    sandbox: Any,
    ending: dict[str, Any],
    state: str,
) -> None:
    sandbox(lambda **_: report(passed=False, **ending))
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, queued.explanation) == (state, ending["sentence"])
    assert current_receipt(draft) is None


def test_no_sandbox_is_said_and_nothing_runs(queued: ProposalTest, sandbox: Any) -> None:
    def absent(**_: Any) -> TestReport:
        raise SandboxUnavailable("Install bubblewrap 0.8 or newer.")

    sandbox(absent)
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, queued.explanation) == ("error", "Install bubblewrap 0.8 or newer.")


def test_files_that_no_sandbox_takes_are_said(queued: ProposalTest, sandbox: Any) -> None:
    def refuse(**_: Any) -> TestReport:
        raise JobRefused("A path is too long.")

    sandbox(refuse)
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert queued.state == "error"
    assert queued.explanation.endswith("A path is too long.")


def test_a_result_that_comes_after_a_change_is_dropped(
    queued: ProposalTest, draft: PackageProposal, author: User, sandbox: Any
) -> None:
    def slow(**_: Any) -> TestReport:
        services.replace_draft(
            proposal_id=draft.pk, author=author, revision=1, files=made.tree(weather_py=b"x = 1\n")
        )
        return report()

    sandbox(slow)
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    draft.refresh_from_db()
    assert queued.state == "error"
    assert "changed before" in queued.explanation
    assert current_receipt(draft) is None


def test_a_silent_workers_test_is_taken_once_more_and_its_late_result_dropped(
    queued: ProposalTest, sandbox: Any
) -> None:
    def overtaken(**_: Any) -> TestReport:
        expire(queued)
        sandbox(lambda **_: report(ran=7))
        services.execute_test(test_id=queued.pk)
        return report(ran=1)

    sandbox(overtaken)
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, queued.attempts, queued.ran) == ("passed", 2, 7)


def test_a_test_whose_worker_died_twice_ends_with_an_honest_sentence(
    queued: ProposalTest, draft: PackageProposal, author: User, sandbox: Any
) -> None:
    asked = sandbox(lambda **_: report())
    ProposalTest.objects.update(state="running", attempts=2, executor="gone")
    expire(queued)
    assert list(ready_tests(10)) == [queued.pk]
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert queued.state == "error"
    assert "died, twice" in queued.explanation
    assert asked == []
    assert services.request_test(proposal_id=draft.pk, member=author).pk != queued.pk


def test_a_live_workers_test_is_left_alone(queued: ProposalTest, sandbox: Any) -> None:
    asked = sandbox(lambda **_: report())
    ProposalTest.objects.update(
        state="running", executor="busy", executor_expires_at=timezone.now() + timedelta(seconds=9)
    )
    assert list(ready_tests(10)) == []
    services.execute_test(test_id=queued.pk)
    assert asked == []


def test_bytes_that_changed_in_the_store_are_not_run(
    queued: ProposalTest, draft: PackageProposal, sandbox: Any
) -> None:
    asked = sandbox(lambda **_: report())
    Blob.objects.filter(pk=draft.files.get(path="weather.py").blob_id).update(content=b"bad")
    services.execute_test(test_id=queued.pk)
    queued.refresh_from_db()
    assert queued.state == "error"
    assert asked == []


def test_reviewers_test_what_was_submitted_and_nothing_else(
    draft: PackageProposal, reviewer: User, author: User
) -> None:
    with pytest.raises(ProposalNotFound):
        services.request_test(proposal_id=draft.pk, member=reviewer)
    PackageProposal.objects.update(state="submitted", submitted_at=timezone.now())
    assert services.request_test(proposal_id=draft.pk, member=reviewer).requested_by == reviewer
    PackageProposal.objects.update(state="withdrawn")
    with pytest.raises(NotADraft):
        services.request_test(proposal_id=draft.pk, member=author)


@pytest.mark.django_db(transaction=True)
def test_progress_is_seen_while_the_tests_run_and_the_claim_is_renewed(
    queued: ProposalTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.proposals.pulse._TICK", 0.02)
    before = timezone.now() + timedelta(seconds=1)
    ProposalTest.objects.update(state="running", executor="me", executor_expires_at=before)
    with Pulse(test_id=queued.pk, executor="me") as pulse:
        pulse.feed("stdout", b"x" * TAIL_CHARACTERS)
        pulse.feed("stderr", b"test_one ... ok\n\x00\xff")
        wait_for(lambda: "test_one" in ProposalTest.objects.get().output)
        assert not pulse.lost.is_set()
        ProposalTest.objects.update(state="error", executor="")
        assert pulse.lost.wait(5)
    shown = ProposalTest.objects.get()
    assert len(shown.output) == TAIL_CHARACTERS
    assert shown.output.endswith("test_one ... ok\n\ufffd\ufffd")
    assert shown.executor_expires_at is not None
    assert shown.executor_expires_at > before


def expire(test: ProposalTest) -> None:
    ProposalTest.objects.filter(pk=test.pk).update(
        executor_expires_at=timezone.now() - timedelta(seconds=1)
    )


def wait_for(holds: Callable[[], bool]) -> None:
    import time

    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until, "It never came to hold."
        time.sleep(0.02)
