"""Which text may stand in an address? Only what the named thing could be called."""

from __future__ import annotations

from django.urls.converters import StringConverter, register_converter


class UsernameConverter(StringConverter):
    """What a member can be called."""

    regex = r"[\w.@+-]{1,150}"


class PackageNameConverter(StringConverter):
    """What a package can be called."""

    regex = r"[a-z0-9][a-z0-9._-]{0,79}"


class ToolNameConverter(StringConverter):
    """What a tool can be called."""

    regex = r"[A-Za-z0-9_-]{1,64}"


class VersionNumberConverter:
    """The number of a version: small enough for its column."""

    regex = r"[1-9][0-9]{0,8}"

    def to_python(self, value: str) -> int:
        """Return the number."""
        return int(value)

    def to_url(self, value: int) -> str:
        """Return the digits."""
        return str(value)


def register() -> None:
    """Make the converters known by name; called once, when the apps are ready."""
    register_converter(UsernameConverter, "username")
    register_converter(PackageNameConverter, "package")
    register_converter(ToolNameConverter, "tool")
    register_converter(VersionNumberConverter, "number")
