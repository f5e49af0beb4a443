"""How do approvals say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, Forbidden, Invalid, NotFound


class RequestNotFound(NotFound):
    """No request that this member may decide has that id."""


class AlreadyDecided(Conflict):
    """The question has its answer; there is no second one."""

    code = "already_decided"


class AlreadyAnswered(Conflict):
    """This person has said yes, and the request waits for another person's."""

    code = "already_answered"


class NotTheSecond(Forbidden):
    """The second yes is not this person's to give."""


class NotTheDecider(Forbidden):
    """Only the member for whom the run works may do this."""


class MayNotBeRemembered(Invalid):
    """What asks every time cannot be allowed once for all."""


class PreviewAgain(Conflict):
    """What was previewed is lost, outdated, or somebody else's; nothing was done."""

    code = "preview_again"


class NotAuthorized(Conflict):
    """Nobody has agreed to exactly this preview."""

    code = "not_authorized"


class BeingApplied(Conflict):
    """The operation is being carried out at this moment."""

    code = "being_applied"


class OutcomeUnknown(Conflict):
    """Whether the operation was carried out is unknown, and it is never tried again by itself."""

    code = "outcome_unknown"


class PauseNotFound(NotFound):
    """No call waits under that token."""


class PauseOver(Conflict):
    """The call does not wait any more."""

    code = "pause_over"


class BadAnswer(Invalid):
    """The answer is not what the tool's contract says."""

    code = "bad_answer"


class NotWhatWasShown(Conflict):
    """The decision names other arguments than the request holds."""

    code = "arguments_changed"


class ReceiptSpent(Conflict):
    """The approval was already used, has expired, or belongs to another call."""

    code = "receipt_spent"
