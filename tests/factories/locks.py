"""Packages of a registry, made on the spot: archives, a lock file, and a tree that needs them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """One version in a registry."""

    name: str
    version: str
    archive: bytes

    @property
    def path(self) -> str:
        return f"/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"

    @property
    def integrity(self) -> str:
        return "sha512-" + base64.b64encode(hashlib.sha512(self.archive).digest()).decode()

    def locked(self, **changes: Any) -> dict[str, Any]:
        """The package's entry in a lock file."""
        return {
            "version": self.version,
            "resolved": f"https://registry.example{self.path}",
            "integrity": self.integrity,
            **changes,
        }


def archive(files: dict[str, bytes], *, top: str = "package", links: tuple[str, ...] = ()) -> bytes:
    """An archive as registries keep it; `links` are names that point to /etc/passwd."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(content)
            entry.mode = 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(entry, io.BytesIO(content))
        for name in links:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(entry)
    return buffer.getvalue()


def published(
    name: str, version: str = "1.0.0", files: dict[str, bytes] | None = None
) -> Published:
    """A small module of that name, which says who it is."""
    package = {"name": name, "version": version, "type": "module", "main": "index.js"}
    source = f"export const who = {json.dumps(f'{name}@{version}')};\n".encode()
    whole = {"package.json": json.dumps(package).encode(), "index.js": source, **(files or {})}
    return Published(name, version, archive(whole))


def package_json(name: str, version: str = "1.0.0", **fields: Any) -> bytes:
    """A package.json."""
    return json.dumps({"name": name, "version": version, **fields}).encode()


def lock(
    name: str,
    needs: dict[str, Published],
    *,
    version: str = "1.0.0",
    root: dict[str, Any] | None = None,
    **entries: Any,
) -> bytes:
    """A lock file; `needs` are packages by their place below node_modules/."""
    direct = {place: one.version for place, one in needs.items() if "/node_modules/" not in place}
    packages: dict[str, Any] = {
        "": {"name": name, "version": version, **(root or {"dependencies": direct})}
    }
    packages |= {f"node_modules/{place}": one.locked() for place, one in needs.items()}
    packages |= entries
    return json.dumps(
        {"name": name, "version": version, "lockfileVersion": 3, "packages": packages}
    ).encode()


def needing(name: str, needs: dict[str, Published], **files: bytes) -> dict[str, bytes]:
    """The two files of a tree that needs packages."""
    direct = {place: one.version for place, one in needs.items() if "/node_modules/" not in place}
    return {
        "package.json": package_json(name, dependencies=direct),
        "package-lock.json": lock(name, needs),
        **files,
    }
