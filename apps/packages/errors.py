"""How do packages say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, NotFound, Unavailable


class PackageNotFound(NotFound):
    """No admitted package, version or tool has that name."""


class VersionTaken(Conflict):
    """That version number was admitted before; it stands for those bytes for ever."""

    code = "version_taken"


class PackageNameTaken(Conflict):
    """The package belongs to another author."""

    code = "package_name_taken"


class ToolNameTaken(Conflict):
    """A built-in tool or another package's tool already answers to that name."""

    code = "tool_name_taken"


class PackageStateUnchanged(Conflict):
    """The package already is as it was asked to be."""

    code = "package_state_unchanged"


class CannotPrepare(Conflict):
    """What a program of the package would stand on cannot be pinned, so it could never run."""

    code = "preparation_failed"


class TreeMismatch(Unavailable):
    """The stored bytes are no longer the bytes that were admitted; they will not run."""

    code = "tree_mismatch"
