"""How do approvals say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, NotFound


class RequestNotFound(NotFound):
    """No request that this member may decide has that id."""


class AlreadyDecided(Conflict):
    """The question has its answer; there is no second one."""

    code = "already_decided"


class NotWhatWasShown(Conflict):
    """The decision names other arguments than the request holds."""

    code = "arguments_changed"


class ReceiptSpent(Conflict):
    """The approval was already used, has expired, or belongs to another call."""

    code = "receipt_spent"
