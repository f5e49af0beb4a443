"""What files does the archive of a registry's package hold?

Its bytes are known by their hash, but not by their content: it is read entry by entry, within
bounds on what it unpacks to, and whatever is not a plain file or folder refuses it whole.
"""

import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from apps.domain.paths import BadPath, check_tree

MIB: Final = 1024 * 1024
MAX_ARCHIVE_BYTES: Final = 30 * MIB
MAX_UNPACKED_BYTES: Final = 192 * MIB
MAX_FILES: Final = 20_000


class BadTarball(ValueError):
    """An archive that is not unpacked; the sentence says why."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of an archive."""

    path: str
    content: bytes
    executable: bool


def read_tarball(
    data: bytes, *, max_bytes: int = MAX_UNPACKED_BYTES, max_files: int = MAX_FILES
) -> list[PackedFile]:
    """Return the files of a package's archive, without the folder that holds them all."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise BadTarball(f"The archive is larger than {MAX_ARCHIVE_BYTES:,} bytes.")
    try:
        raw = _gunzipped(data, max_bytes)
        found = list(_entries(raw, max_files))
        check_tree((one.path for one in found), max_files=max_files)
    except BadPath as refusal:
        raise BadTarball(str(refusal)) from None
    except (
        tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError, RecursionError,
    ) as broken:  # fmt: skip
        if isinstance(broken, BadTarball):
            raise
        raise BadTarball("The archive is damaged or uses a feature that we refuse.") from None
    return found


def _gunzipped(data: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    raw = stream.decompress(data, most + 1)
    if len(raw) > most:
        raise BadTarball(f"The archive unpacks to more than {most:,} bytes.")
    if not stream.eof:
        raise BadTarball("The archive ends too early.")
    return raw


def _entries(raw: bytes, max_files: int) -> Iterator[PackedFile]:
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        for count, member in enumerate(archive, 1):
            # Folders too: a million of them take no room in an archive, and much in memory.
            if count > max_files:
                raise BadTarball(f"The archive holds more than {max_files:,} files.")
            if member.isdir():
                continue
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                raise BadTarball("The archive holds a link, a device or a sparse file.")
            _, slash, path = member.name.removeprefix("./").partition("/")
            stream = archive.extractfile(member)
            if not slash or stream is None:
                raise BadTarball("The archive holds a file outside its one folder.")
            yield PackedFile(path, stream.read(), bool(member.mode & 0o111))
