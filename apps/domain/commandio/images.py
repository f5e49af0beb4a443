"""Is this an image that we pass on? Told from its first bytes and its framing, never its name."""

from typing import Final

MAX_IMAGE_BYTES: Final = 4 * 1024 * 1024
# Few bytes can stand for many pixels, and whoever shows them has to unpack them all.
MAX_SIDE: Final = 16_384
MAX_PIXELS: Final = 50_000_000
PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
WEBP: Final = "image/webp"
MIME_TYPES: Final = (PNG, JPEG, WEBP)

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_ANIMATED: Final = 0x02
# Of JPEG: what begins a picture, and what stands alone without a length.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_NO_SEGMENT: Final = frozenset({0x00, 0xD8, 0xD9, 0xDA})


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
        _check_sides(_number(content, 16, 4), _number(content, 20, 4))
        return PNG
    if content.startswith(b"\xff\xd8\xff"):
        if not content.rstrip(b"\x00").endswith(b"\xff\xd9"):
            raise BadImage("The JPEG is cut off.")
        _check_jpeg(content)
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
        if first and (kind != b"IHDR" or size != 13):
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


def _check_jpeg(content: bytes) -> None:
    """Walk over the segments up to the one that says how large the picture is."""
    place = 2
    while place + 9 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker == 0xFF:
            # Any number of these may stand before a marker.
            place += 1
        elif marker in _ALONE:
            place += 2
        elif marker in _FRAMES:
            _check_sides(_number(content, place + 7, 2), _number(content, place + 5, 2))
            return
        elif marker in _NO_SEGMENT:
            break
        else:
            place += 2 + max(_number(content, place + 2, 2), 2)
    raise BadImage("The JPEG holds no picture.")


def _check_webp(content: bytes) -> None:
    if int.from_bytes(content[4:8], "little") + 8 != len(content) or len(content) < 25:
        raise BadImage("The WebP is not as long as it says.")
    match content[12:16]:
        case b"VP8X" if len(content) >= 30:
            if content[20] & _ANIMATED:
                raise BadImage("The WebP is animated.")
            _check_sides(_little(content, 24, 3) + 1, _little(content, 27, 3) + 1)
        case b"VP8 " if len(content) >= 30 and content[23:26] == b"\x9d\x01\x2a":
            _check_sides(_little(content, 26, 2) & 0x3FFF, _little(content, 28, 2) & 0x3FFF)
        case b"VP8L" if content[20] == 0x2F:
            sides = _little(content, 21, 4)
            _check_sides((sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1)
        case _:
            raise BadImage("The WebP holds no picture.")


def _check_sides(width: int, height: int) -> None:
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE) or width * height > MAX_PIXELS:
        raise BadImage(
            f"An image has 1 to {MAX_SIDE:,} pixels on each side and {MAX_PIXELS:,} in all;"
            f" this one is {width:,} by {height:,}."
        )


def _number(content: bytes, place: int, size: int) -> int:
    return int.from_bytes(content[place : place + size], "big")


def _little(content: bytes, place: int, size: int) -> int:
    return int.from_bytes(content[place : place + size], "little")
