"""Is this a ZIP archive through and through, and how large is what it holds?

Nothing is believed of what the archive says about itself: each member is unpacked and counted, and
no two of them may share a byte.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Final

from .findings import MAX_ROWS, Drawing, Unfit, count

MAX_MEMBERS: Final = 2_000
MAX_UNPACKED: Final = 128 * 1024 * 1024
MAX_RATIO: Final = 200
"""Times that a member may grow, once it is large enough to matter."""
_RATIO_FROM: Final = 1024 * 1024
_STEP: Final = 256 * 1024
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_END: Final = struct.Struct("<4s4H2IH")
_METHODS: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class Archive:
    """A checked archive; its members are read within a budget for the whole of it."""

    def __init__(self, content: bytes) -> None:
        _whole(content)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, struct.error, UnicodeDecodeError) as problem:
            raise Unfit(f"It is no readable archive: {problem}.") from None
        self.members = self._zip.infolist()
        self._left = MAX_UNPACKED
        _distinct(self.members)
        _apart(content, self.members)

    @property
    def names(self) -> set[str]:
        """The names of all members."""
        return {member.filename for member in self.members}

    def check_all(self) -> None:
        """Unpack every member once and throw it away, so that sizes and sums are known true."""
        for member in self.members:
            self.read(member.filename)
        self._left = MAX_UNPACKED

    def read(self, name: str) -> bytes:
        """Return the bytes of one member."""
        member = self._zip.getinfo(name)
        pieces: list[bytes] = []
        size = 0
        try:
            with self._zip.open(member) as opened:
                while piece := opened.read(_STEP):
                    size += len(piece)
                    if size > self._left:
                        raise Unfit(f"It unpacks to more than {MAX_UNPACKED:,} bytes.")
                    if size > _RATIO_FROM and size > MAX_RATIO * max(member.compress_size, 1):
                        raise Unfit(f"A member grows more than {MAX_RATIO} times.")
                    pieces.append(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as problem:
            raise Unfit(f"A member cannot be unpacked: {problem}.") from None
        self._left -= size
        return b"".join(pieces)


def _whole(content: bytes) -> None:
    """The archive begins with the file and ends with it: nothing else hides in front or behind."""
    if not content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise Unfit("It does not begin as an archive.")
    if len(content) < _END.size or content[-_END.size :][:4] != b"PK\x05\x06":
        raise Unfit("It does not end as an archive; a comment or something else follows.")


def _distinct(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise Unfit(f"It has more than {MAX_MEMBERS:,} members.")
    seen: set[str] = set()
    for member in members:
        name = member.filename
        parts = name.rstrip("/").split("/")
        if name.startswith("/") or "\\" in name or ".." in parts or "\0" in name or ":" in parts[0]:
            raise Unfit("A member's name leads outside of the archive.")
        if name.casefold() in seen:
            raise Unfit("Two members have one name.")
        seen.add(name.casefold())
        if member.flag_bits & 0x1:
            raise Unfit("A member is encrypted.")
        if member.compress_type not in _METHODS:
            raise Unfit("A member is packed in an unusual way.")
        if (member.external_attr >> 16) & 0o170000 == 0o120000:
            raise Unfit("A member is a link.")


def _apart(content: bytes, members: list[zipfile.ZipInfo]) -> None:
    """No member lies inside another one: so an archive cannot hold more than its own size."""
    end = 0
    for member in sorted(members, key=lambda one: one.header_offset):
        start = member.header_offset
        if start < end:
            raise Unfit("Members of the archive overlap.")
        if end == 0 and start != 0:
            raise Unfit("Something lies in front of the archive.")
        head = content[start : start + _LOCAL.size]
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise Unfit("A member has no header.")
        fields = _LOCAL.unpack(head)
        end = start + _LOCAL.size + fields[9] + fields[10] + member.compress_size
    if end > len(content):
        raise Unfit("A member reaches beyond the file.")


def archive(content: bytes, drawing: Drawing) -> str:
    """Check a plain archive and list its members."""
    opened = Archive(content)
    opened.check_all()
    files = [one for one in opened.members if not one.is_dir()]
    total = sum(one.file_size for one in files)
    drawing.summary = f"An archive of {count(len(files), 'file')}, {total:,} bytes unpacked."
    drawing.cut = len(files) > MAX_ROWS
    drawing.table([[one.filename, f"{one.file_size:,} bytes"] for one in files[:MAX_ROWS]])
    return "application/zip"
