"""Who said yes to what, what people chose beforehand, and what waits for another system."""

from apps.approvals.models.ledger import Answer, ApprovalRequest, Receipt, Waiver
from apps.approvals.models.pauses import Pause
from apps.approvals.models.previews import Preview
from apps.approvals.models.wishes import (
    ApprovalRule,
    ModeChoice,
    Remembered,
    TriggeredRun,
    UnattendedAllowance,
)

__all__ = [
    "Answer",
    "ApprovalRequest",
    "ApprovalRule",
    "ModeChoice",
    "Pause",
    "Preview",
    "Receipt",
    "Remembered",
    "TriggeredRun",
    "UnattendedAllowance",
    "Waiver",
]
