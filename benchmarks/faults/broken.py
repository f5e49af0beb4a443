"""A boundary without its receipt check: every question counts as answered, none is ever spent.

The same attempts run against it, and have to find that what nobody allowed is carried out. Nothing
of this exists outside the benchmarks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from apps.approvals import services as ledger
from apps.boundary.steps import decide as step
from apps.domain import policy
from apps.domain.policy import Facts, ReceiptState, Verdict
from apps.domain.tooling import Specification
from benchmarks.outside import replace


def break_the_receipt_check() -> None:
    """Take the check out of this process."""

    def decide(spec: Specification, facts: Facts) -> Verdict:
        if facts.approval is not None:
            facts = dataclasses.replace(facts, approval=ReceiptState.APPROVED)
        return policy.decide(spec, facts)

    def spend(**_: Any) -> None:
        return

    replace(step, "decide", decide)
    replace(ledger, "spend_receipt", spend)
