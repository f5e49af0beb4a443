"""How does a rule say no? One refusal type, worded so that it may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Refusal(Exception):
    """A rule that said no: a stable code, an HTTP status and a sentence for a person.

    Edges translate it (problem+json, an admin message, a socket close); nothing else does.
    `field` names the input at fault, `extra` holds bounded, showable members.
    """

    code: ClassVar[str] = "refused"
    status: ClassVar[int] = 400

    def __init__(
        self, message: str, *, field: str | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.extra = dict(extra or {})


class Invalid(Refusal):
    """The input breaks a rule that its sender can see and mend."""

    code = "invalid"
    status = 422


class NotFound(Refusal):
    """Nothing that this person may see has that name. Foreign and missing look alike."""

    code = "not_found"
    status = 404


class Forbidden(Refusal):
    """The person is known and may not do this."""

    code = "forbidden"
    status = 403


class Conflict(Refusal):
    """The state has moved on, or never allowed this."""

    code = "conflict"
    status = 409


class Unavailable(Refusal):
    """A part that this needs is away; trying again later is right."""

    code = "unavailable"
    status = 503
