"""Is this a picture from its first byte to its last, of a size that can be drawn?"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from .findings import Drawing, Unfit

MAX_SIDE: Final = 20_000
MAX_PIXELS: Final = 100_000_000
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_ADAM7: Final = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_NO_SIZE: Final = {0xC4, 0xC8, 0xCC}


def _sized(width: int, height: int, drawing: Drawing) -> None:
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        raise Unfit(f"A picture of {width} x {height} points cannot be drawn.")
    drawing.summary = f"A picture of {width} x {height} points."


def png(content: bytes, drawing: Drawing) -> str:
    """Check a PNG chunk by chunk, its sums and the amount of its pixels included."""
    if not content.startswith(_PNG):
        raise Unfit("It does not begin as a PNG.")
    place, packed, first, ended = len(_PNG), [], b"", False
    while place < len(content):
        if ended:
            raise Unfit("Something follows the picture's end.")
        if place + 12 > len(content):
            raise Unfit("It is cut off.")
        size = int.from_bytes(content[place : place + 4], "big")
        kind, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + size]
        total = content[place + 8 + size : place + 12 + size]
        if len(total) != 4 or zlib.crc32(kind + body) != int.from_bytes(total, "big"):
            raise Unfit("A part of it is damaged or cut off.")
        if not first:
            if kind != b"IHDR" or size != 13:
                raise Unfit("Its first part does not say what it is.")
            first = body
            width, height = struct.unpack(">2I", first[:8])
            _sized(width, height, drawing)
        elif kind == b"IDAT":
            packed.append(body)
        ended = kind == b"IEND"
        place += 12 + size
    if not ended or not packed:
        raise Unfit("It is cut off.")
    _pixels(first, packed)
    return "image/png"


def _pixels(first: bytes, packed: list[bytes]) -> None:
    width, height, depth, colours, _, _, laced = struct.unpack(">2I5B", first)
    if colours not in _CHANNELS or depth not in (1, 2, 4, 8, 16) or laced > 1:
        raise Unfit("Its colours are of no known kind.")
    bits = _CHANNELS[colours] * depth
    passes = _ADAM7 if laced else ((0, 0, 1, 1),)
    expected = 0
    for left, top, across, down in passes:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            expected += rows * (1 + -(-columns * bits // 8))
    unpacker, found = zlib.decompressobj(), 0
    try:
        for piece in packed:
            while piece and not unpacker.eof:
                found += len(unpacker.decompress(piece, 1024 * 1024))
                piece = unpacker.unconsumed_tail
                if found > expected:
                    raise Unfit("It holds more than the picture that it announces.")
    except zlib.error:
        raise Unfit("Its pixels cannot be unpacked.") from None
    if found != expected:
        raise Unfit("It holds less than the picture that it announces.")


def jpeg(content: bytes, drawing: Drawing) -> str:
    """Check a JPEG from marker to marker."""
    if not content.startswith(b"\xff\xd8\xff") or not content.endswith(b"\xff\xd9"):
        raise Unfit("It does not begin and end as a JPEG.")
    place, sized = 2, False
    while place + 4 <= len(content):
        if content[place] != 0xFF:
            raise Unfit("It has no readable structure.")
        marker = content[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        size = int.from_bytes(content[place + 2 : place + 4], "big")
        if size < 2 or place + 2 + size > len(content):
            raise Unfit("It is cut off.")
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            height, width = struct.unpack(">2H", content[place + 5 : place + 9])
            _sized(width, height, drawing)
            sized = True
        place += 2 + size
        if marker == 0xDA:
            break
    if not sized:
        raise Unfit("It does not say how large it is.")
    if not _only_scans(content, place):
        raise Unfit("Something follows the picture's end.")
    return "image/jpeg"


def _only_scans(content: bytes, place: int) -> bool:
    """Whether entropy-coded data and further segments lead exactly to the end of the file."""
    while place < len(content):
        place = content.find(b"\xff", place)
        if place < 0 or place + 1 >= len(content):
            return False
        marker = content[place + 1]
        if marker == 0xD9:
            return place + 2 == len(content)
        if marker in (0x00, 0xFF) or 0xD0 <= marker <= 0xD7:
            place += 1 if marker == 0xFF else 2
            continue
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return False


def gif(content: bytes, drawing: Drawing) -> str:
    """Check a GIF block by block."""
    if content[:6] not in (b"GIF87a", b"GIF89a") or len(content) < 14:
        raise Unfit("It does not begin as a GIF.")
    width, height, flags = struct.unpack("<2HB", content[6:11])
    _sized(width, height, drawing)
    place = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    while place < len(content):
        kind = content[place]
        if kind == 0x3B:
            if place + 1 != len(content):
                raise Unfit("Something follows the picture's end.")
            return "image/gif"
        if kind == 0x21:
            place += 2
        elif kind == 0x2C and place + 10 <= len(content):
            flags = content[place + 9]
            place += 11 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
        else:
            raise Unfit("It has no readable structure.")
        while place < len(content) and content[place]:
            place += 1 + content[place]
        place += 1
    raise Unfit("It is cut off.")


def webp(content: bytes, drawing: Drawing) -> str:
    """Check a WebP chunk by chunk."""
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        raise Unfit("It does not begin as a WebP.")
    if int.from_bytes(content[4:8], "little") + 8 != len(content):
        raise Unfit("It is cut off, or something follows its end.")
    place, width, height = 12, 0, 0
    while place + 8 <= len(content):
        kind, size = (
            content[place : place + 4],
            int.from_bytes(content[place + 4 : place + 8], "little"),
        )
        body = content[place + 8 : place + 8 + size]
        if len(body) != size:
            raise Unfit("It is cut off.")
        if kind == b"VP8X" and size >= 10:
            width = int.from_bytes(body[4:7], "little") + 1
            height = int.from_bytes(body[7:10], "little") + 1
        elif kind == b"VP8 " and size >= 10 and not width:
            width, height = (side & 0x3FFF for side in struct.unpack("<2H", body[6:10]))
        elif kind == b"VP8L" and size >= 5 and not width:
            bits = int.from_bytes(body[1:5], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        place += 8 + size + size % 2
    if place != len(content):
        raise Unfit("It has no readable structure.")
    _sized(width, height, drawing)
    return "image/webp"
