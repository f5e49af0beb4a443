"""How is it said that something outside cannot be used?"""

from __future__ import annotations

from apps.core.errors import Invalid, NotFound, Unavailable


class SecretMissing(Unavailable):
    """A package needs a secret that no administrator has granted it."""

    code = "secret_missing"


class ConnectionMissing(Unavailable):
    """There is no connection that a call may use."""

    code = "connection_missing"


class SealBroken(Unavailable):
    """A stored value cannot be opened with any key that this deployment has."""

    code = "seal_broken"


class SecretRefused(Invalid):
    """A value or a name that no secret can have."""

    code = "secret_refused"


class SecretNotFound(NotFound):
    """No secret, grant or connection has that name."""
