"""Under which names do tools appear: to models, and in what is recorded of them?"""

import hashlib
import re
from typing import Final

TOOL_PREFIX: Final = "pkg_"
_MOST: Final = 64


def tool_name_of(tool_id: str) -> str:
    """Return the name that models use for a tool, derived from its id alone."""
    return _name(tool_id)


def published_name(tool_id: str, artifact: str) -> str:
    """Return under which name an artifact publishes a tool: the tool's own name, then its own."""
    return f"{tool_id.rpartition('.')[2]}_{artifact}"


def artifact_tool_name(tool_id: str, artifact: str) -> str:
    """Return the name that models use for a tool that an artifact publishes.

    The prefix of all package tools stands before it, so that none ever takes a name of ours.
    """
    return _name(published_name(tool_id, artifact))


def _name(text: str) -> str:
    name = TOOL_PREFIX + re.sub(r"[^A-Za-z0-9_-]", "_", text)
    if len(name) <= _MOST:
        return name
    return f"{name[: _MOST - 9]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
