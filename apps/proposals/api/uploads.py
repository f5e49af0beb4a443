"""How does a package arrive? As JSON with text files, or as one archive in a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.core.files.uploadedfile import UploadedFile
from rest_framework.parsers import DataAndFiles, MultiPartParser

from apps.core.api.parsing import BodyTooLarge
from apps.domain.archives import MANIFEST_NAME, ArchiveLimits
from apps.domain.packagetree import BadArchive, read_archive
from apps.domain.problems import Problem
from apps.proposals.errors import InvalidPackage

MAX_ARCHIVE_BYTES = ArchiveLimits().max_archive_bytes
# The files as JSON text: most of it is one byte a byte, quotes and line ends are two.
MAX_JSON_BYTES = 4 * 1024 * 1024
_FORM_OVERHEAD = 64 * 1024


class ArchiveParser(MultiPartParser):
    """Read a form that says how long it is, and is no longer than an archive may be."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> DataAndFiles:
        """Refuse a form by its stated length, before a byte of it is stored."""
        request = (parser_context or {})["request"]
        stated = str(request.META.get("CONTENT_LENGTH") or "")
        limit = MAX_ARCHIVE_BYTES + _FORM_OVERHEAD
        # A server reads no further than the stated length, so stating it is enough.
        if not stated.isdigit() or int(stated) > limit:
            raise BodyTooLarge(f"An archive has a stated length, of at most {limit:,} bytes.")
        return super().parse(stream, media_type, parser_context)


def unpack(archive: UploadedFile) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the files of an uploaded archive, or name what is wrong with it."""
    try:
        manifest, files = read_archive(archive.read(MAX_ARCHIVE_BYTES + 1))
    except BadArchive as refusal:
        raise InvalidPackage(("archive", problem) for problem in refusal.problems) from None
    if manifest is None:
        missing = Problem(MANIFEST_NAME, "required", "The file is missing.")
        raise InvalidPackage([("archive", missing)])
    return manifest, files
