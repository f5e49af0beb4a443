"""Read pages of lines, list folders, and take one section out of a document."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from apps.domain.commandio.images import MAX_IMAGE_BYTES
from apps.domain.commandio.results import BadResult, ImageBlock, image_block
from apps.domain.filescope.files import Files, whole
from apps.domain.filescope.paths import NotThere, ScopeError
from apps.domain.filescope.scope import Scope
from apps.domain.scoping import Artifact
from apps.domain.words import shown

MAX_PAGE_BYTES: Final = 64 * 1024
MAX_RESULT_BYTES: Final = 512 * 1024
MAX_DOCUMENT_BYTES: Final = 8 * 1024 * 1024
# What a line costs in a result beside its text, at most.
_AROUND: Final = 64

# Only the beginning: what follows is taken apart without a pattern, in time that grows with it.
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def read_lines(
    scope: Scope, path: str, *, start: int = 1, limit: int | None = None
) -> dict[str, Any]:
    """Return whole lines of a file from a number on, within 64 KiB, and how many it has.

    A line keeps its end as it is, so that pages put together are the file again.
    """
    place = scope.file(path)
    page: list[dict[str, Any]] = []
    size, total, full, room = 0, 0, False, MAX_RESULT_BYTES - 3 * 4_096
    for line, length in _lines(scope.files, place.physical):
        total += 1
        if total < start or full or (limit is not None and len(page) >= limit):
            continue
        if size + length > MAX_PAGE_BYTES:
            if not page:
                raise ScopeError(f"Line {total} alone is larger than {MAX_PAGE_BYTES:,} bytes.")
            full = True
            continue
        text = _text(line, total)
        room -= len(json.dumps(text, ensure_ascii=False).encode()) + _AROUND
        if room < 0:
            # Many short lines take more room in a result than in the file.
            full = True
            continue
        page.append({"line": total, "text": text})
        size += length
    return {
        "artifactId": scope.artifact.id,
        "resolvedArtifactId": place.artifact.id,
        "path": path,
        "lines": page,
        "totalLines": total,
    }


def list_entries(scope: Scope, path: str | None, *, after: str = "") -> dict[str, Any]:
    """Return what is in a folder, by name; `next` says after which name to go on."""
    found = scope.entries(scope.place(path))
    listed: dict[str, Any] = {"artifactId": scope.artifact.id}
    if path is not None:
        listed["path"] = path
    entries: list[dict[str, str]] = []
    left = MAX_RESULT_BYTES - 2 * 4_096 - _AROUND
    for name in sorted(found):
        if name <= after:
            continue
        left -= len(ascii(name)) + _AROUND
        if left < 0:
            listed["next"] = entries[-1]["name"]
            break
        entries.append({"name": name, "kind": found[name].value})
    return {**listed, "entries": entries, "truncated": "next" in listed}


def read_section(scope: Scope, path: str, heading: str) -> dict[str, Any]:
    """Return one section of a Markdown document: its heading and all up to the next such one."""
    place = scope.file(path)
    content = whole(scope.files, place.physical, MAX_DOCUMENT_BYTES)
    if content is None:
        raise ScopeError(f"The document is larger than {MAX_DOCUMENT_BYTES:,} bytes.")
    lines = [_text(line, number) for number, line in enumerate(_split(content), 1)]
    wanted = heading.strip().lstrip("#").strip()
    headings = list(_headings(lines))
    found = [index for index, (_, _, title) in enumerate(headings) if title == wanted]
    if len(found) != 1:
        word = "no" if not found else "more than one"
        raise NotThere(f"The document has {word} section {shown(wanted)}.")
    first, level, _ = headings[found[0]]
    end = next((line for line, other, _ in headings[found[0] + 1 :] if other <= level), len(lines))
    text = "".join(lines[first:end])
    if len(text.encode()) > MAX_PAGE_BYTES:
        raise ScopeError(f"The section is larger than {MAX_PAGE_BYTES:,} bytes.")
    return {
        "artifactId": scope.artifact.id,
        "resolvedArtifactId": place.artifact.id,
        "path": path,
        "heading": wanted,
        "line": first + 1,
        "text": text,
    }


def view_image(scope: Scope, path: str) -> ImageBlock:
    """Return an image file as a block, under the rules of all images."""
    place = scope.file(path)
    content = whole(scope.files, place.physical, MAX_IMAGE_BYTES)
    if content is None:
        raise ScopeError(f"The image is larger than {MAX_IMAGE_BYTES:,} bytes.")
    try:
        return image_block(content)
    except BadResult as refusal:
        raise ScopeError(str(refusal)) from None


def graph_of(root: Artifact, tools: dict[str, list[str]]) -> dict[str, Any]:
    """Return the whole structure of a package: each artifact, its children and its tools."""
    found: dict[str, Any] = {"id": root.id, "kind": root.kind.value, "path": root.path}
    if tools.get(root.id):
        found["tools"] = sorted(tools[root.id])
    if root.children:
        found["children"] = {name: graph_of(child, tools) for name, child in root.children}
    return found


def _lines(files: Files, path: str) -> Iterator[tuple[bytes, int]]:
    """Yield each line with its length; a line larger than a page has only a true length."""
    rest, skipped = b"", 0
    for chunk in files.chunks(path):
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            line = rest + chunk[begin : end + 1]
            yield line, skipped + len(line)
            rest, skipped, begin = b"", 0, end + 1
        rest += chunk[begin:]
        if len(rest) > MAX_PAGE_BYTES:
            rest, skipped = b"", skipped + len(rest)
    if rest or skipped:
        yield rest, skipped + len(rest)


def _split(content: bytes) -> list[bytes]:
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _text(line: bytes, number: int) -> str:
    if b"\x00" in line:
        raise ScopeError(f"Line {number} holds NUL, so it is no text.")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise ScopeError(f"Line {number} is not UTF-8, so it is no text.") from None


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    fence = ""
    for index, line in enumerate(lines):
        if marks := _FENCE.match(line):
            mark = marks.group(1)
            if not fence:
                fence = mark
                continue
            if mark[0] == fence[0] and len(mark) >= len(fence) and not line.strip().strip(mark[0]):
                fence = ""
                continue
        bare = line.removesuffix("\n").removesuffix("\r")
        if not fence and (found := _HEADING.match(bare)):
            yield index, len(found.group(1)), _title(bare[found.end() :])


def _title(rest: str) -> str:
    """Return a heading's words, without the signs that may close it."""
    words = rest.strip(" \t")
    unclosed = words.rstrip("#")
    return (unclosed if unclosed.endswith((" ", "\t")) else words).strip()
