"""Images to test with: the smallest that keep their format's framing."""

import struct
import zlib


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
PIXELS = chunk(b"IDAT", zlib.compress(b"\x00\x00"))
END = chunk(b"IEND", b"")
PNG = SIGNATURE + HEADER + PIXELS + END
ANIMATED_PNG = SIGNATURE + HEADER + chunk(b"acTL", b"\x00" * 8) + PIXELS + END
JPEG = b"\xff\xd8\xff\xe0" + b"\x00" * 20 + b"\xff\xd9"
WEBP = b"RIFF" + (16).to_bytes(4, "little") + b"WEBPVP8 " + (4).to_bytes(4, "little") + b"\x00" * 4
