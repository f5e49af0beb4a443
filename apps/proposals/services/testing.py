"""How are a draft's own tests run? In the sandbox, by one worker at a time, for exact bytes.

The test's row is the queue. A worker claims it by one conditional update, renews the claim while
the sandbox runs, and settles it once; a late result finds the row settled and is dropped. A test
whose worker fell silent is taken once more, then ends with a sentence that says so.
"""

from __future__ import annotations

import os
import socket
import uuid
from datetime import timedelta
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.services import SYSTEM, record
from apps.core.correlation import bind_correlation_id, current_correlation_id
from apps.core.queue import ring
from apps.domain.packagetree import tree_digest
from apps.proposals.errors import InvalidPackage, NotADraft, ProposalNotFound
from apps.proposals.examination import Draft, examine
from apps.proposals.models import PackageProposal, ProposalTest
from apps.proposals.pulse import CLAIM_SECONDS, Pulse
from apps.proposals.selectors import draft_tree
from apps.proposals.services.drafts import OPEN_STATES, lock_proposal, read_package, works_on
from apps.proposals.verdicts import Verdict

log = structlog.get_logger(__name__)

TEST_TASK = "proposals.execute_test"
MAX_ATTEMPTS = 2

State = ProposalTest.State


@transaction.atomic
def request_test(*, proposal_id: Any, member: User) -> ProposalTest:
    """Queue a run of a proposal's own tests over its present bytes, or return the one under way."""
    proposal = lock_proposal(proposal_id)
    own = works_on(proposal, member)
    reviewed = proposal.state == PackageProposal.State.SUBMITTED and may(
        member, Permission.PROPOSAL_REVIEW
    )
    if not own and not reviewed:
        raise ProposalNotFound("There is no such proposal.")
    if proposal.state not in OPEN_STATES:
        raise NotADraft(
            f"{proposal.ref} is {proposal.get_state_display().lower()}; nothing is left to test."
        )
    # A change of the draft ends its open test, so an open one is always of these bytes.
    under_way = proposal.tests.filter(state__in=[State.QUEUED, State.RUNNING]).first()
    if under_way is not None:
        return under_way
    test = ProposalTest.objects.create(
        proposal=proposal,
        artifact_hash=proposal.artifact_hash,
        contract_digest=proposal.contract_digest,
        requested_by=member,
        correlation_id=current_correlation_id(),
    )
    test.refresh_from_db(fields=["queued_at", "created_at"])
    record(
        actor=member,
        action="proposal.test_requested",
        subject=proposal,
        digest=proposal.artifact_hash,
        detail={"test": str(test.pk), "contract": proposal.contract_digest},
    )
    ring(TEST_TASK, test_id=str(test.pk))
    return test


def execute_test(*, test_id: Any) -> None:
    """Run one queued test in the sandbox, if no other worker has it."""
    executor = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"[:120]
    test = _claim(test_id, executor)
    if test is None:
        return
    bind_correlation_id(test.correlation_id)
    tree = draft_tree(test.proposal)
    if tree_digest(tree) != test.artifact_hash:
        _settle(
            test, executor, Verdict(State.ERROR, "The stored files are not the files to be tested.")
        )
        return
    try:
        manifest = read_package(test.proposal.manifest, tree)
    except InvalidPackage as refused:
        # The rules may have become stricter since the draft was saved.
        _settle(test, executor, Verdict(State.ERROR, refused.message))
        return
    # A run takes long; it must not keep a connection from others.
    connection.close()
    with Pulse(test_id=test.pk, executor=executor) as pulse:
        verdict = examine(Draft(manifest, tree, test.correlation_id), pulse)
    if not _settle(test, executor, verdict):
        log.info("test_result_dropped", test=str(test.pk))


def _claim(test_id: Any, executor: str) -> ProposalTest | None:
    """Take a queued test, or one whose worker fell silent; the database's clock decides."""
    silent = Q(state=State.RUNNING, executor_expires_at__lt=Now())
    exhausted = ProposalTest.objects.filter(silent, pk=test_id, attempts__gte=MAX_ATTEMPTS)
    if exhausted.exists():
        _give_up(test_id)
        return None
    taken = ProposalTest.objects.filter(Q(state=State.QUEUED) | silent, pk=test_id).update(
        state=State.RUNNING,
        executor=executor,
        executor_expires_at=Now() + timedelta(seconds=CLAIM_SECONDS),
        attempts=F("attempts") + 1,
        started_at=Now(),
        output="",
        updated_at=Now(),
    )
    if taken != 1:
        return None
    return ProposalTest.objects.select_related("proposal").get(pk=test_id)


@transaction.atomic
def _settle(test: ProposalTest, executor: str, verdict: Verdict) -> bool:
    """Give a test its one end; False says that it was taken over, or that the draft moved on."""
    settled = ProposalTest.objects.filter(
        pk=test.pk, state=State.RUNNING, executor=executor
    ).update(
        state=verdict.state,
        explanation=verdict.explanation[:500],
        ran=verdict.ran,
        failed=verdict.failed,
        runtime=verdict.runtime[:80],
        milliseconds=verdict.milliseconds,
        output=verdict.output,
        surface=verdict.surface,
        finished_at=Now(),
        executor="",
        executor_expires_at=None,
        updated_at=Now(),
    )
    if settled == 1:
        _record_end(test, verdict.state)
    return settled == 1


@transaction.atomic
def _give_up(test_id: Any) -> None:
    ended = ProposalTest.objects.filter(
        pk=test_id,
        state=State.RUNNING,
        executor_expires_at__lt=Now(),
        attempts__gte=MAX_ATTEMPTS,
    ).update(
        state=State.ERROR,
        explanation="The worker that ran this test died, twice. Nothing is known of its result."
        " Run it again.",
        finished_at=Now(),
        executor="",
        executor_expires_at=None,
        updated_at=Now(),
    )
    if ended == 1:
        test = ProposalTest.objects.select_related("proposal").get(pk=test_id)
        bind_correlation_id(test.correlation_id)
        _record_end(test, State.ERROR)


def _record_end(test: ProposalTest, state: str) -> None:
    record(
        actor=SYSTEM,
        action="proposal.tested",
        subject=test.proposal,
        outcome=state,
        digest=test.artifact_hash,
        detail={"test": str(test.pk), "contract": test.contract_digest},
    )
