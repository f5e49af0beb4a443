"""What is a version called as a file, and of which type are its bytes?"""

from __future__ import annotations

from typing import Final

from apps.artifacts.models import Artifact, ArtifactVersion

_ENDINGS: Final = {
    Artifact.Kind.MARKDOWN: ("md", "text/markdown"),
    Artifact.Kind.HTML: ("html", "text/html"),
    Artifact.Kind.SVG: ("svg", "image/svg+xml"),
    Artifact.Kind.TEXT: ("txt", "text/plain"),
    Artifact.Kind.CODE: ("txt", "text/plain"),
}
_LANGUAGES: Final = {
    "python": "py", "javascript": "js", "typescript": "ts", "json": "json", "yaml": "yaml",
    "css": "css", "sql": "sql", "bash": "sh", "shell": "sh", "rust": "rs", "go": "go",
    "java": "java", "c": "c", "toml": "toml", "csv": "csv",
}  # fmt: skip


def ending_of(artifact: Artifact) -> str:
    """Return the ending of a file with this artifact's text."""
    ending, _ = _ENDINGS[Artifact.Kind(artifact.kind)]
    return _LANGUAGES.get(artifact.language.lower(), ending)


def type_of_text(artifact: Artifact) -> str:
    """Return the media type of an artifact's text, without how it is encoded."""
    return _ENDINGS[Artifact.Kind(artifact.kind)][1]


def media_type_of(version: ArtifactVersion) -> str:
    """Return what the bytes of a version are, whole, as an answer declares it."""
    if version.artifact.kind == Artifact.Kind.FILE:
        return version.media_type
    return f"{type_of_text(version.artifact)}; charset=utf-8"


def download_name(version: ArtifactVersion) -> str:
    """Return the name under which a version is saved; that of text says which version it is."""
    artifact = version.artifact
    if artifact.kind == Artifact.Kind.FILE:
        return artifact.file_name.rpartition("/")[2]
    ending = ending_of(artifact)
    stem = "".join(c if c.isalnum() or c in " -_." else "-" for c in version.title)
    stem = " ".join(stem.split()).strip(" .-")[:80] or "artifact"
    if stem.lower().endswith(f".{ending}"):
        stem = stem[: -len(ending) - 1]
    return f"{stem} v{version.number}.{ending}"
