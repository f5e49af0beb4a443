"""Programs that an agent runs, from the proposal to what the model is told."""

from __future__ import annotations

import itertools
from typing import Any

from apps.boundary.pipeline import execute_waiting
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from tests.factories.rooms import crossed

_steps = itertools.count(2)


def proposed_program(
    run: Run, code: str, *targets: str, language: str = "python", step: int | None = None
) -> Call:
    """A call of run_code that waits for a worker."""
    asked = {"language": language, "code": code, "artifact_targets": list(targets)}
    return crossed(run, "run_code", asked, step=next(_steps) if step is None else step).call


class Ran:
    """One call of run_code that has settled, and what the model was told."""

    def __init__(self, run: Run, code: str, *targets: str, language: str = "python") -> None:
        waiting = proposed_program(run, code, *targets, language=language)
        execute_waiting(call_id=waiting.pk, executor="test")
        self.call = Call.objects.get(pk=waiting.pk)
        self.told: dict[str, Any] = projection_of(self.call) or {}

    @property
    def value(self) -> dict[str, Any]:
        """What came back, of a success or of a failure."""
        value: dict[str, Any] = self.told.get("value") or self.told.get("details") or {}
        return value
