"""Which tool names may no package take? Those of built-in tools, told by the app that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_sources: list[Callable[[], Iterable[str]]] = []


def register_reserved_names(source: Callable[[], Iterable[str]]) -> None:
    """Declare names that packages may not use; `source` is asked anew at every admission."""
    _sources.append(source)


def reserved_names() -> frozenset[str]:
    """Return every declared name, in lower case."""
    return frozenset(name.casefold() for source in _sources for name in source())
