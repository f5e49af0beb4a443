"""How do grants say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, NotFound


class ToolNotGrantable(NotFound):
    """No admitted package version has that tool."""


class PackageNotInUse(Conflict):
    """The version is not the active one, or its package is switched off."""

    code = "package_not_in_use"


class AboveCeiling(Conflict):
    """The agent's ceiling does not let it call packages."""

    code = "above_ceiling"


class TooManyGrants(Conflict):
    """An agent holds a bounded number of tools."""

    code = "too_many_grants"


class GrantNotFound(NotFound):
    """The agent holds no such tool."""
