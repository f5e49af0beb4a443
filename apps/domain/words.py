"""How do we quote text that somebody else wrote inside a sentence of ours?"""


def shown(text: str, *, limit: int = 80) -> str:
    """Return text quoted, in ASCII, and no longer than the limit, safe in any message."""
    clipped = text if len(text) <= limit else text[:limit]
    body = clipped.encode("ascii", "backslashreplace").decode("ascii")
    body = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in body)
    if len(body) > limit or clipped is not text:
        body = body[: max(limit - 3, 0)] + "..."
    return f'"{body}"'
