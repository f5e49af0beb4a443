"""How do we keep and quote text that somebody else wrote?"""

import re
from typing import Final

# NUL has no place in a text column, half a character none in UTF-8.
UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_HALF: Final = re.compile("[\ud800-\udfff]")


def joined(text: str) -> str:
    """Return text whose halves of characters, cut apart by somebody's chunks, are whole again."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def storable(text: str) -> str:
    """Return text that every store and every wire takes, with a mark for what none can hold."""
    return UNSTORABLE.sub("\ufffd", joined(text))


def shown(text: str, *, limit: int = 80) -> str:
    """Return text quoted, in ASCII, and no longer than the limit, safe in any message."""
    clipped = text if len(text) <= limit else text[:limit]
    body = clipped.encode("ascii", "backslashreplace").decode("ascii")
    body = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in body)
    if len(body) > limit or clipped is not text:
        body = body[: max(limit - 3, 0)] + "..."
    return f'"{body}"'


def visible(text: str) -> str:
    """Return text in which whatever a terminal would obey is made visible instead."""
    return "".join(
        one if one in "\n\t" or one.isprintable() else f"\\x{ord(one):02x}"
        for one in text.replace("\r\n", "\n")
    )
