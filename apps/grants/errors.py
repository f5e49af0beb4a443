"""How do grants say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, Invalid, NotFound


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


class BadPolicy(Invalid):
    """The policy cannot say this."""

    code = "bad_policy"


class StalePolicy(Conflict):
    """Somebody else changed the policy in between."""

    code = "stale_policy"


class TooManyNodes(Conflict):
    """The policy says a bounded number of things."""

    code = "too_many_nodes"


class BadPinnedValue(Invalid):
    """These arguments cannot be pinned, or not to this."""

    code = "bad_pinned_value"


class NothingPinned(NotFound):
    """The deployment sets no argument of that tool."""


class BadChoice(Invalid):
    """A choice names tools."""

    code = "bad_choice"


class NoSuchSeat(NotFound):
    """The agent has no place in that room."""
