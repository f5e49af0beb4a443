"""What started a run that no person started, and may it begin now?

Such a run rests on a standing grant that an app above keeps. A run carries which grant, in which
revision, and until when; whether that still holds is asked when its turn comes, and at every call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.runs.models import Caused, Run, RunInput

Gate = Callable[[RunInput, Run], str]
"""Says why the run of an input may not begin, or nothing. The seat's row is locked."""

_gates: list[Gate] = []


@dataclass(frozen=True, slots=True)
class Cause:
    """The grant under which something is started, as it stood then."""

    trigger: str
    automation_id: UUID
    revision: int
    until: datetime

    @property
    def fields(self) -> dict[str, Any]:
        """What a row that rests on it carries."""
        return {
            "trigger": self.trigger,
            "automation_id": self.automation_id,
            "automation_revision": self.revision,
            "authority_until": self.until,
        }


def inherited(row: Caused) -> dict[str, Any]:
    """Return the cause of one row for another that follows from it."""
    return {
        "trigger": row.trigger,
        "automation_id": row.automation_id,
        "automation_revision": row.automation_revision,
        "authority_until": row.authority_until,
    }


def register_gate(gate: Gate) -> None:
    """Let the app that keeps grants say whether a run that rests on one may begin."""
    _gates.append(gate)


def why_not_begin(waiting: RunInput, run: Run) -> str:
    """Return why a run may not begin; without anybody to ask, what no person started may not."""
    if waiting.trigger == Run.Trigger.MEMBER:
        return ""
    if not _gates:
        return "Nothing here can say on whose authority this run would start."
    return next((why for gate in _gates if (why := gate(waiting, run))), "")


def within(row: Caused, latest: datetime) -> datetime:
    """Return the end of a run's time: the latest there is, or the end of its authority."""
    return latest if row.authority_until is None else min(latest, row.authority_until)


def cause_told(run: Run) -> dict[str, Any]:
    """Return what the trail says of a run's cause; nothing where a member asked."""
    if run.automation_id is None:
        return {}
    return {
        "trigger": run.trigger,
        "automation": str(run.automation_id),
        "revision": run.automation_revision,
    }
