"""How do runs say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, NotFound


class RunNotFound(NotFound):
    """No run that this member may see has that id."""


class StaleFence(Conflict):
    """Another worker has taken the run over; this one may write nothing more."""

    code = "stale_fence"


class AlreadySettled(Conflict):
    """The call has its outcome; there is no second one."""

    code = "already_settled"


class RunOver(Conflict):
    """The run has ended; nothing more can happen in it."""

    code = "run_over"
