"""Say, in words that may be shown, why nothing was run."""

from __future__ import annotations

from apps.core.errors import Conflict, Invalid, NotFound, Unavailable
from apps.domain.egress import Crossing


class SandboxUnavailable(Unavailable):
    """No sandbox can run this now; nothing was run, and nothing runs it unconfined instead."""

    code = "sandbox_unavailable"

    @property
    def sentence(self) -> str:
        """Return the reason, as it may be shown."""
        return self.message


class SandboxBusy(SandboxUnavailable):
    """Every sandbox is in use, and none became free in time."""

    code = "sandbox_busy"


class KernelLost(SandboxUnavailable):
    """The sandbox that was meant does not live any more, and its state is gone with it."""

    code = "kernel_lost"


class SessionOver(SandboxUnavailable):
    """The session that a tool belongs to did not start or has ended; it is not started again."""

    code = "session_over"
    crossings: tuple[Crossing, ...] = ()
    """What the last call of it tried to reach."""


class JobRefused(Invalid):
    """The job can never run as it was written."""

    code = "sandbox_job_refused"


class WorkspaceNotFound(NotFound):
    """No workspace that this member may use has that id."""


class FileRefused(Invalid):
    """A file that cannot be shown: too large, no text, or badly named."""

    code = "file_refused"


class FileNotThere(NotFound):
    """No file and no folder of the workspace has that name."""


class MemoryMovedOn(Conflict):
    """Another call changed what is remembered of the workspace in the meantime."""

    code = "workspace_moved_on"


class WorkspaceBusy(Unavailable):
    """Another call works in the workspace, and did not leave it in time; trying again may help."""

    code = "workspace_busy"


class WorkspaceInUse(Conflict):
    """A call works in the workspace, so it cannot be deleted."""

    code = "workspace_in_use"


class LeaseLost(Conflict):
    """The workspace was given to another call meanwhile; nothing of this one was kept."""

    code = "workspace_lease_lost"


class WorkspaceFull(Invalid):
    """The files are more than a workspace holds; what was there before stays."""

    code = "workspace_full"


class DependenciesMissing(SandboxUnavailable):
    """What a package needs of other packages is not there, so its code is not loaded."""

    code = "dependencies_missing"
