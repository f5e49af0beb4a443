"""How do artifacts say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, Invalid, NotFound


class ArtifactNotFound(NotFound):
    """No artifact that this member may use has that id."""


class StaleVersion(Conflict):
    """The artifact has moved on since the version that the writer saw."""

    code = "stale_version"


class BadArtifact(Invalid):
    """A title, kind, language or body that an artifact cannot have."""


class NotText(Invalid):
    """A file that a program made: it has no text to read or to write here."""

    code = "not_text"


class StaleCursor(Conflict):
    """The draft holds something else than its writer believes."""

    code = "stale_cursor"


class DraftTaken(Conflict):
    """The draft belongs to another turn, or to a later hold on this one, or is over."""

    code = "draft_taken"


class TooManyShares(Conflict):
    """The artifact is shared with as many members as may be."""

    code = "too_many_shares"
