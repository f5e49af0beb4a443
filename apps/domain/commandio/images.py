"""Is this an image that we pass on? Told from its first bytes and its framing, never its name."""

from typing import Final

MAX_IMAGE_BYTES: Final = 4 * 1024 * 1024
PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
WEBP: Final = "image/webp"
MIME_TYPES: Final = (PNG, JPEG, WEBP)

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_VP8: Final = (b"VP8 ", b"VP8L", b"VP8X")


class BadImage(ValueError):
    """Bytes that are not an image of a kind that we pass on."""


def image_type(content: bytes) -> str:
    """Return the media type of an image by its own bytes, or raise `BadImage`."""
    if not content:
        raise BadImage("The image is empty.")
    if len(content) > MAX_IMAGE_BYTES:
        raise BadImage(f"The image is larger than {MAX_IMAGE_BYTES:,} bytes.")
    if content.startswith(_PNG_SIGNATURE):
        _check_png(content)
        return PNG
    if content.startswith(b"\xff\xd8\xff"):
        if not content.rstrip(b"\x00").endswith(b"\xff\xd9"):
            raise BadImage("The JPEG is cut off.")
        return JPEG
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        _check_webp(content)
        return WEBP
    raise BadImage("It is not a PNG, JPEG or WebP image.")


def _check_png(content: bytes) -> None:
    """Walk over the chunks: the first is the header, the last the end, and none animates."""
    place, first, data = len(_PNG_SIGNATURE), True, False
    while place + 12 <= len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        kind = content[place + 4 : place + 8]
        if first and kind != b"IHDR":
            raise BadImage("The PNG does not begin with its header.")
        if kind in (b"acTL", b"fcTL", b"fdAT"):
            raise BadImage("The PNG is animated.")
        data = data or kind == b"IDAT"
        first = False
        place += 12 + size
        if place > len(content):
            break
        if kind == b"IEND":
            if not data or place != len(content):
                raise BadImage("The PNG holds no picture, or something follows its end.")
            return
    raise BadImage("The PNG is cut off.")


def _check_webp(content: bytes) -> None:
    if int.from_bytes(content[4:8], "little") + 8 != len(content) or len(content) < 20:
        raise BadImage("The WebP is not as long as it says.")
    if content[12:16] not in _VP8:
        raise BadImage("The WebP holds no picture.")
