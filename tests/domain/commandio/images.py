"""Images to test with: the smallest that keep their format's framing."""

import struct
import zlib


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def png(width: int, height: int) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return SIGNATURE + header + PIXELS + END


def jpeg(width: int, height: int) -> bytes:
    about = b"\xff\xe0\x00\x10JFIF\x00\x01\x01" + b"\x00" * 7
    frame = b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\x00"
    return b"\xff\xd8" + about + b"\xff" + frame + b"\xff\xda\x00\x02" + b"\x00" * 8 + b"\xff\xd9"


def webp(kind: bytes, inside: bytes) -> bytes:
    part = kind + len(inside).to_bytes(4, "little") + inside + b"\x00" * (len(inside) % 2)
    return b"RIFF" + (len(part) + 4).to_bytes(4, "little") + b"WEBP" + part


def webp_lossless(width: int, height: int) -> bytes:
    sides = (width - 1) | (height - 1) << 14
    return webp(b"VP8L", b"\x2f" + sides.to_bytes(4, "little"))


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x10\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_extended(width: int, height: int, flags: int = 0) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", bytes([flags, 0, 0, 0]) + sides)


SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
PIXELS = chunk(b"IDAT", zlib.compress(b"\x00\x00"))
END = chunk(b"IEND", b"")
PNG = SIGNATURE + HEADER + PIXELS + END
ANIMATED_PNG = SIGNATURE + HEADER + chunk(b"acTL", b"\x00" * 8) + PIXELS + END
JPEG = jpeg(1, 1)
WEBP = webp_lossless(1, 1)
