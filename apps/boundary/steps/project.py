"""Step 5, project: what may the model see of a result? Redacted, bounded, marked where foreign."""

from __future__ import annotations

from typing import Any

from apps.boundary.crossing import Executed
from apps.core.internal import internal_hosts
from apps.domain import projection
from apps.domain.tooling import FaultDomain, Reason, Specification, usual_domain


def project(executed: Executed, spec: Specification) -> dict[str, Any]:
    """Return the bounded projection of an execution, the only thing that goes back to a model."""
    return {
        "outcome": executed.outcome.value,
        **projection.project(executed.result, spec, hosts=internal_hosts()),
    }


def unexecuted(
    *,
    outcome: str,
    reason: Reason,
    message: str,
    fault: FaultDomain | None = None,
    retryable: bool = False,
) -> dict[str, Any]:
    """Return what a model is told of a call whose tool never ran."""
    return {
        "outcome": outcome,
        "status": "error",
        "reason": reason.value,
        "message": message[:700],
        "retryable": retryable,
        "fault": (fault or usual_domain(reason)).value,
    }
