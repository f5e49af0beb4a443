"""Read which libraries a program needs, and let a copied program find them beside itself."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_DYNAMIC, _LOAD = 2, 1
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<QQ")


class NotElf(ValueError):
    """The file is not a little-endian 64-bit ELF file with a dynamic section."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The names of the needed libraries, and each search path with its place in the file."""

    needed: tuple[str, ...]
    search: tuple[tuple[int, str], ...]


def read_dynamic(content: bytes) -> Dynamic:
    """Return the dynamic section's facts, or refuse the file with NotElf."""
    try:
        return _read(content)
    except (struct.error, IndexError, ValueError) as problem:
        raise NotElf("The file is not a dynamic 64-bit ELF file.") from problem


def _read(content: bytes) -> Dynamic:
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotElf("The file is not a little-endian 64-bit ELF file.")
    head = _HEADER.unpack_from(content)
    table, size, count = head[5], head[9], head[10]
    segments = [_SEGMENT.unpack_from(content, table + size * place) for place in range(count)]
    dynamic = next((one for one in segments if one[0] == _DYNAMIC), None)
    if dynamic is None:
        return Dynamic((), ())
    entries: list[tuple[int, int]] = []
    for at in range(dynamic[2], dynamic[2] + dynamic[5], _ENTRY.size):
        tag, value = _ENTRY.unpack_from(content, at)
        if tag == 0:
            break
        entries.append((tag, value))
    address = next(value for tag, value in entries if tag == _STRINGS)
    strings = next(
        one[2] + address - one[3]
        for one in segments
        if one[0] == _LOAD and one[3] <= address < one[3] + one[5]
    )
    return Dynamic(
        needed=tuple(_text(content, strings + v) for tag, v in entries if tag == _NEEDED),
        search=tuple(
            (strings + v, _text(content, strings + v))
            for tag, v in entries
            if tag in (_RPATH, _RUNPATH)
        ),
    )


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode("utf-8", "surrogateescape")


def retarget(file: Path, prefix: Path, libraries: str) -> bool:
    """Point a search path below `prefix` to `libraries`; return whether all now fit the copy.

    The new path is written over the old one, so it must not be longer.
    """
    content = file.read_bytes()
    for at, old in read_dynamic(content).search:
        parts = [libraries if _below(one, prefix) else one for one in old.split(":")]
        new = ":".join(dict.fromkeys(parts))
        if new == old:
            continue
        if len(new) > len(old.encode("utf-8", "surrogateescape")):
            return False
        room = len(old.encode("utf-8", "surrogateescape"))
        content = content[:at] + new.encode().ljust(room, b"\0") + content[at + room :]
        file.write_bytes(content)
    return True


def _below(path: str, prefix: Path) -> bool:
    return path == str(prefix) or path.startswith(f"{prefix}/")
