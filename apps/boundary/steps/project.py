"""Step 5, project: what may the model see of a result? Redacted, bounded, and marked where foreign."""

from __future__ import annotations

from typing import Any

from apps.boundary.crossing import Executed
from apps.domain.projection import project_value
from apps.domain.tooling import Outcome, Specification

RELAYED = 4_000


def project(executed: Executed, spec: Specification | None) -> dict[str, Any]:
    """Return the bounded projection of an execution, the only thing that goes back to a model."""
    body: dict[str, Any] = {"outcome": executed.outcome.value}
    if executed.outcome is Outcome.OK:
        body["result"] = project_value(
            executed.value, outside=spec is not None and spec.outside_data
        )
    else:
        body["reason"] = executed.reason.value if executed.reason else ""
        body["message"] = project_value(executed.message[:RELAYED], outside=False)
        if executed.retryable:
            body["may_retry"] = True
    if executed.artifacts:
        body["artifacts"] = list(executed.artifacts)
        if executed.outcome is not Outcome.OK:
            body["note"] = "These were saved before the failure; the change may be incomplete."
    return body
