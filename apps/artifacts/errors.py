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
