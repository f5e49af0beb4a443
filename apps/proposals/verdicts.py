"""What did a run of a draft's tests show? One state, one sentence, and bounded figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.proposals.models import ProposalTest
from apps.sandbox.client import Reason
from apps.sandbox.runner import TestReport

State = ProposalTest.State

# Ends that say nothing about the package, so they are no failure of it.
_NOT_ITS_FAULT = frozenset({Reason.CANCELLED, Reason.DRIVER_UNAVAILABLE, Reason.DRIVER_FAILED})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a test: how it is stored and said."""

    state: State
    explanation: str
    ran: int = 0
    failed: int = 0
    runtime: str = ""
    milliseconds: int | None = None
    output: str = ""
    surface: dict[str, Any] = field(default_factory=dict)


def judge(report: TestReport) -> Verdict:
    """Turn a report into a verdict: passed, failed by the package's fault, or not run by ours."""
    if report.passed:
        state = State.PASSED
    elif report.reason in _NOT_ITS_FAULT:
        state = State.ERROR
    else:
        state = State.FAILED
    return Verdict(
        state=state,
        explanation=report.sentence,
        ran=report.ran,
        failed=report.failed,
        runtime=f"{report.runtime}, confined" if report.runtime else "confined",
        milliseconds=report.duration_ms,
        output=report.output_tail.replace("\x00", "\ufffd"),
    )
