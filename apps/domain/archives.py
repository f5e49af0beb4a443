"""How does a package travel: one archive in, its manifest and files out, and back again?

An archive is hostile until read: it is taken entry by entry, and what it says about its own
sizes is never believed. Nothing is written to a disk here.
"""

import io
import json
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from apps.domain.canonical import BadJson, strict_loads
from apps.domain.problems import Problem, Problems, Rejected

MANIFEST_NAME: Final = "kaizen.json"
MAX_MANIFEST_BYTES: Final = 512 * 1024

_ZIP_MAGIC: Final = b"PK\x03\x04"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_TAR_BLOCK: Final = 512
# What the headers of one entry may take, long names in extended headers included.
_TAR_ENTRY_OVERHEAD: Final = 8 * _TAR_BLOCK
_TAR_TAIL: Final = 20 * _TAR_BLOCK
_ZIP_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_BROKEN: Final = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,
    # What the standard readers let out when a damaged field points beyond its data.
    LookupError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How much an archive may hold, before and after it is unpacked."""

    max_archive_bytes: int = 2 * 1024 * 1024
    max_files: int = 64
    max_file_bytes: int = 128 * 1024
    max_total_bytes: int = 1024 * 1024


class BadArchive(Rejected):
    """An archive that is not read, with what is wrong in it."""


class _Entry(NamedTuple):
    name: str
    refused: str | None
    is_folder: bool
    content: bytes


def read_archive(
    data: bytes, *, limits: ArchiveLimits | None = None
) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
    """Return the manifest beside the tree, if there is one, and the files of an archive."""
    limits = limits or ArchiveLimits()
    if len(data) > limits.max_archive_bytes:
        raise _bad("size", f"The archive is larger than {limits.max_archive_bytes:,} bytes.")
    if data.startswith(_ZIP_MAGIC):
        entries = _zip_entries(data, limits)
    elif data.startswith(_GZIP_MAGIC):
        entries = _tar_entries(data, limits)
    else:
        raise _bad("format", "The archive is neither .zip nor .tar.gz.")
    try:
        found = _collected(entries, limits)
    except _BROKEN as error:
        if isinstance(error, BadArchive):
            raise
        raise _bad("damaged", "The archive is damaged or uses a feature that we refuse.") from None
    manifest = found.pop(MANIFEST_NAME, None)
    return (None if manifest is None else _manifest_of(manifest)), found


def write_archive(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """Return a .zip of a manifest and its tree that is the same, byte for byte, every time."""
    text = json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)
    whole = {**files, MANIFEST_NAME: (text + "\n").encode("utf-8")}
    buffer = io.BytesIO()
    # Stored, not deflated: compressors differ between machines, and the bytes must not.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(whole):
            entry = zipfile.ZipInfo(path, date_time=_ZIP_EPOCH)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, whole[path])
    return buffer.getvalue()


def _bad(rule: str, message: str, path: str = "") -> BadArchive:
    return BadArchive([Problem(path, rule, message)])


def _manifest_of(raw: bytes) -> dict[str, Any]:
    try:
        manifest = strict_loads(raw, max_bytes=MAX_MANIFEST_BYTES)
    except BadJson as refusal:
        raise _bad("json", refusal.message, MANIFEST_NAME) from None
    if not isinstance(manifest, dict):
        raise _bad("json", "The manifest is not a JSON object.", MANIFEST_NAME)
    return manifest


def _collected(entries: Iterator[_Entry], limits: ArchiveLimits) -> dict[str, bytes]:
    problems = Problems()
    found: dict[str, bytes] = {}
    total = 0
    for entry in entries:
        if problems.full:
            break
        if entry.refused is not None:
            problems.add(entry.name, "entry", entry.refused)
        elif entry.is_folder:
            continue
        elif entry.name in found:
            problems.add(entry.name, "duplicate", "The archive holds this path twice.")
        else:
            is_manifest = entry.name == MANIFEST_NAME
            cap = MAX_MANIFEST_BYTES if is_manifest else limits.max_file_bytes
            if len(entry.content) > cap:
                problems.add(entry.name, "file_size", f"The file is larger than {cap:,} bytes.")
                continue
            total += 0 if is_manifest else len(entry.content)
            found[entry.name] = entry.content
        if total > limits.max_total_bytes:
            problems.add(
                "",
                "tree_size",
                f"The files are larger than {limits.max_total_bytes:,} bytes in all.",
            )
            break
        if len(found) - (MANIFEST_NAME in found) > limits.max_files:
            problems.add("", "file_count", f"There are more than {limits.max_files} files.")
            break
    if problems:
        raise BadArchive(problems.found())
    return found


def _cap_of(name: str, limits: ArchiveLimits) -> int:
    """Return how many bytes are read of an entry: one more than may be, which tells on it."""
    return 1 + (MAX_MANIFEST_BYTES if name == MANIFEST_NAME else limits.max_file_bytes)


def _zip_entries(data: bytes, limits: ArchiveLimits) -> Iterator[_Entry]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            refused = None
            if info.orig_filename != info.filename:
                refused = "The name holds a NUL character."
            elif info.flag_bits & 0x1:
                refused = "The entry is encrypted."
            elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                refused = "The entry is compressed in a way that we do not read."
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                refused = "The entry is a link or a device."
            elif kind and info.is_dir() != (kind == stat.S_IFDIR):
                refused = "The entry is a file and a folder at once."
            elif info.is_dir() and info.file_size:
                refused = "A folder has content."
            if refused is not None or info.is_dir():
                yield _Entry(info.filename, refused, info.is_dir(), b"")
                continue
            with archive.open(info) as stream:
                yield _Entry(
                    info.filename, None, False, stream.read(_cap_of(info.filename, limits))
                )


def _tar_entries(data: bytes, limits: ArchiveLimits) -> Iterator[_Entry]:
    raw = _gunzipped(data, limits)
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        for member in archive:
            # `tar -C folder .` writes every name with this prefix.
            name = member.name.removeprefix("./")
            if member.isdir():
                yield _Entry(name, None, True, b"")
                continue
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                yield _Entry(name, "The entry is a link, a device or a sparse file.", False, b"")
                continue
            stream = archive.extractfile(member)
            if stream is None:
                yield _Entry(name, "The entry has no content.", False, b"")
                continue
            yield _Entry(name, None, False, stream.read(_cap_of(name, limits)))


def _gunzipped(data: bytes, limits: ArchiveLimits) -> bytes:
    bound = (
        limits.max_total_bytes
        + MAX_MANIFEST_BYTES
        + 2 * (limits.max_files + 1) * _TAR_ENTRY_OVERHEAD
        + _TAR_TAIL
    )
    stream = zlib.decompressobj(wbits=31)
    raw = stream.decompress(data, bound)
    if stream.unconsumed_tail:
        raise _bad("tree_size", f"The archive unpacks to more than {bound:,} bytes.")
    if not stream.eof:
        raise _bad("damaged", "The archive ends too early.")
    if stream.unused_data:
        raise _bad("trailing_data", "Something follows the end of the archive.")
    return raw
