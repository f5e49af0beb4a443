"""What may a decision come to? Admit, ask, refuse, or hand back an earlier result."""

from dataclasses import dataclass

from apps.domain.policy.modes import ApprovalMode, Second, Waived
from apps.domain.tooling.words import Reason


@dataclass(frozen=True, slots=True)
class Admit:
    """The call may go ahead, under this mode."""

    mode: ApprovalMode
    rule: str
    # Why a call that would have asked passed without a question.
    waived: Waived = Waived.NOT


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody has to say yes first."""

    mode: ApprovalMode
    why: str
    rule: str
    second: Second = Second.NOBODY
    # Whether the one who is asked may allow exactly this call from now on.
    may_remember: bool = False
    expires_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call may not go ahead."""

    reason: Reason
    message: str
    rule: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same write was made earlier in this turn; its result is handed back."""

    call_id: str
    rule: str


Verdict = Admit | Ask | Refuse | Repeat
