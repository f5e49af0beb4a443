"""Which files does a program find beside it, and how is it certain that they are the ones admitted?

The manifest is written and sealed by us, with a keyed sum over every entry and the call that it is
for. Before anything starts the seal is checked, and each file's digest is taken from its bytes:
what a row says of them is not believed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.utils.crypto import salted_hmac

from apps.domain.canonical import canonical_json

FOLDER: Final = "/shared"
_DIR: Final = "KAIZEN_SHARED_RESOURCES_DIR"
_MANIFEST: Final = "KAIZEN_SHARED_RESOURCES_MANIFEST"
VARIABLES: Final = frozenset({_DIR, _MANIFEST})
MAX_FILES: Final = 64
MAX_BYTES: Final = 12 * 1024 * 1024
"""Of all shared files together."""

_SALT: Final = "kaizen.sandbox.shared"


class BadSeal(ValueError):
    """A manifest or a file is not the one that was admitted; the sentence names it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One admitted file, as the manifest names it."""

    path: str
    id: str
    kind: str
    version: int
    digest: str
    filename: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """A manifest for one call, and the seal over it."""

    call_id: str
    manifest: str
    seal: str


def place_of(filename: str) -> str:
    """Return where a shared file lies for the program."""
    return f"{FOLDER}/{filename}"


def seal(call_id: object, entries: Sequence[Entry]) -> Sealed:
    """Write the manifest of a call and seal it."""
    manifest = json.dumps([asdict(entry) for entry in entries], ensure_ascii=False)
    return Sealed(str(call_id), manifest, _sum(str(call_id), manifest))


def opened(sealed: Sealed, contents: dict[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    """Return the files of a sealed manifest, by their names in its folder, or raise BadSeal."""
    if not hmac.compare_digest(sealed.seal, _sum(sealed.call_id, sealed.manifest)):
        raise BadSeal("The list of shared files is not the one that was sealed.")
    files: list[tuple[str, bytes]] = []
    entries: list[dict[str, Any]] = json.loads(sealed.manifest)
    for entry in entries:
        content = contents.get(entry["digest"])
        if content is None or len(content) != entry["size"]:
            raise BadSeal(f"The bytes of {entry['filename']} are not there whole.")
        if "sha256:" + hashlib.sha256(content).hexdigest() != entry["digest"]:
            raise BadSeal(f"The bytes of {entry['filename']} are not the ones that were admitted.")
        files.append((entry["path"].removeprefix(f"{FOLDER}/"), content))
    return tuple(files)


def variables(sealed: Sealed | None) -> tuple[tuple[str, str], ...]:
    """Return what tells a program of its shared files; nothing where there are none."""
    if sealed is None:
        return ()
    return ((_DIR, FOLDER), (_MANIFEST, sealed.manifest))


def _sum(call_id: str, manifest: str) -> str:
    said = canonical_json({"call": call_id, "manifest": manifest})
    return salted_hmac(_SALT, said, algorithm="sha256").hexdigest()
