"""Say, in words that may be shown, why nothing was run."""


class SandboxUnavailable(Exception):
    """No sandbox can run this now; nothing was run, and nothing runs it unconfined instead."""

    @property
    def sentence(self) -> str:
        """Return the reason as one sentence."""
        return str(self)


class SandboxBusy(SandboxUnavailable):
    """Every sandbox is in use, and none became free in time."""


class JobRefused(ValueError):
    """The supervisor would not take the job as it was written."""
