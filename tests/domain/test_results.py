"""Whose failure it was, and what may be concluded from it."""

import pytest

from apps.domain.tooling import FaultDomain, Reason, ToolFailure, usual_domain


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_one_usual_domain(reason: Reason) -> None:
    assert usual_domain(reason) in FaultDomain


@pytest.mark.parametrize(
    ("reason", "whose"),
    [
        (Reason.EXECUTION_ERROR, FaultDomain.TOOL),
        (Reason.CONTRACT_ERROR, FaultDomain.TOOL),
        (Reason.TIMEOUT, FaultDomain.TOOL),
        (Reason.DEPENDENCY_UNAVAILABLE, FaultDomain.DEPENDENCY),
        (Reason.INVALID_ARGUMENTS, FaultDomain.CALLER),
        (Reason.NOT_FOUND, FaultDomain.CALLER),
        (Reason.STALE_VERSION, FaultDomain.CALLER),
        (Reason.APPROVAL_DENIED, FaultDomain.BOUNDARY),
        (Reason.QUOTA_EXCEEDED, FaultDomain.BOUNDARY),
        (Reason.STOPPED, FaultDomain.BOUNDARY),
    ],
)
def test_a_failure_belongs_to_whom_its_reason_names(reason: Reason, whose: FaultDomain) -> None:
    assert ToolFailure(reason, "It failed.").fault is whose


def test_a_tool_that_relays_its_callers_failure_says_so() -> None:
    relayed = ToolFailure(
        Reason.COMMAND_FAILED, "PermissionError: permission denied", domain=FaultDomain.CALLER
    )
    assert relayed.fault is FaultDomain.CALLER
    assert not relayed.fault.counts_against_tool


def test_only_what_kept_a_tool_from_its_job_counts_against_it() -> None:
    counts = {domain for domain in FaultDomain if domain.counts_against_tool}
    assert counts == {FaultDomain.TOOL, FaultDomain.DEPENDENCY}
