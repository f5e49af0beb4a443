"""How do automations say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, NotFound, Refusal


class AutomationNotFound(NotFound):
    """No automation of this member has that id."""


class AutomationRevoked(Conflict):
    """What was revoked stays so; a new one is made in its place."""

    code = "automation_revoked"


class BadStartToken(Refusal):
    """The token opens no automation at this address."""

    code = "token_invalid"
    status = 401


class NotStarted(Conflict):
    """An automation was due, and nothing may start: the rule that said so, in words."""

    code = "automation_refused"

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message, extra={"rule": rule})
        self.rule = rule
