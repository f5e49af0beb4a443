"""Find files by name, and lines by a regular expression that takes linear time."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from apps.domain.filescope.files import EntryKind, whole
from apps.domain.filescope.paths import MAX_PATTERN, ScopeError, glob_expression
from apps.domain.filescope.reading import MAX_RESULT_BYTES
from apps.domain.filescope.scope import Place, Scope

MAX_ENTRIES: Final = 10_000
MAX_GREP_FILE: Final = 8 * 1024 * 1024
MAX_GREP_TOTAL: Final = 64 * 1024 * 1024
MAX_SLICE: Final = 64 * 1024
MAX_REGEX_BYTES: Final = 2 * 1024 * 1024
# Room for the names around the matches of a result.
_HEAD: Final = 16 * 1024


def glob_files(scope: Scope, pattern: str, path: str | None = None) -> dict[str, Any]:
    """Return the files below a folder whose relative path matches; none of them is opened."""
    matches = _glob(pattern)
    place = scope.place(path)
    if not scope.is_folder(place):
        raise ScopeError("A pattern is searched for in a folder, and this is a file.")
    result = _Result()
    for relative, inner, kind in _bounded(scope, place, result):
        if kind is EntryKind.FILE and matches(relative) and not result.add(inner.path):
            break
    return result.as_dict(scope, path)


def grep_files(
    scope: Scope,
    pattern: str,
    path: str | None = None,
    glob: str | None = None,
    gone: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Return the lines that match, of a file or of all text files below a folder.

    `^` and `$` are the ends of a line, and no match goes beyond one. A pattern can take long for
    each byte, so whether somebody still waits is asked again and again.
    """
    regex = _compiled(pattern)
    fits = _glob(glob) if glob is not None else None
    place = scope.place(path)
    result = _Result()
    left = MAX_GREP_TOTAL
    for relative, inner in _searched(scope, place, result):
        if fits is not None and not fits(relative):
            continue
        content = whole(scope.files, inner.physical, MAX_GREP_FILE)
        if content is None:
            result.truncated = True
            continue
        left -= len(content)
        if left < 0:
            result.truncated = True
            break
        if not _is_text(content):
            continue
        for number, text in _matching(regex, content, result, gone):
            if not result.add({"path": inner.path, "line": number, "text": text}):
                return result.as_dict(scope, path)
    return result.as_dict(scope, path)


class _Result:
    """Matches up to the bound of a result."""

    def __init__(self) -> None:
        self.matches: list[Any] = []
        self.truncated = False
        self._left = MAX_RESULT_BYTES - _HEAD

    def add(self, match: Any) -> bool:
        """Take a match; tell whether there was room for it."""
        self._left -= len(json.dumps(match, ensure_ascii=False).encode()) + 1
        if self._left < 0:
            self.truncated = True
            return False
        self.matches.append(match)
        return True

    def as_dict(self, scope: Scope, path: str | None) -> dict[str, Any]:
        """Return the result, with the path that was searched."""
        named = {} if path is None else {"path": path}
        return {
            "artifactId": scope.artifact.id,
            **named,
            "matches": self.matches,
            "truncated": self.truncated,
        }


def _bounded(scope: Scope, place: Place, result: _Result) -> Iterator[tuple[str, Place, EntryKind]]:
    for seen, entry in enumerate(scope.walk(place)):
        if seen >= MAX_ENTRIES:
            result.truncated = True
            return
        yield entry


def _searched(scope: Scope, place: Place, result: _Result) -> Iterator[tuple[str, Place]]:
    """Yield each plain file with the name that a filter looks at."""
    if not scope.is_folder(place):
        yield place.path.rpartition("/")[2], place
        return
    for relative, inner, kind in _bounded(scope, place, result):
        if kind is EntryKind.FILE:
            yield relative, inner


def _is_text(content: bytes) -> bool:
    if b"\x00" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _matching(
    regex: Any, content: bytes, result: _Result, gone: Callable[[], bool]
) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line in which there is a match."""
    if content and not content.endswith(b"\n"):
        # The end of the last line is a place like the end of every other.
        content += b"\n"
    first = 1
    for lines in _slices(content):
        if gone():
            raise ScopeError("The search took too long; a plainer pattern takes less.")
        if len(lines) > MAX_RESULT_BYTES:
            # One line that no result has room for.
            result.truncated = True
        else:
            for number, text in _within(regex, lines):
                yield first + number, text
        first += lines.count(b"\n")


def _slices(content: bytes) -> Iterator[bytes]:
    """Yield whole lines, a slice of them at a time: one search cannot be interrupted."""
    place = 0
    while place < len(content):
        end = content.rfind(b"\n", place, place + MAX_SLICE) + 1
        if not end:
            end = content.index(b"\n", place) + 1
        yield content[place:end]
        place = end


def _within(regex: Any, content: bytes) -> Iterator[tuple[int, str]]:
    """Yield which lines have a match, counted from 0, with their texts."""
    number, counted, place = 0, 0, 0
    while place < len(content) and (found := regex.search(content, place)) is not None:
        # A match after the last line end stands in no line.
        if found.start() >= len(content):
            return
        begin = content.rfind(b"\n", 0, found.start()) + 1
        stop = content.index(b"\n", found.start())
        number += content.count(b"\n", counted, begin)
        counted = begin
        yield number, content[begin:stop].decode("utf-8")
        place = stop + 1


def _compiled(pattern: str) -> Any:
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise ScopeError(f"A pattern has 1 to {MAX_PATTERN:,} characters.")
    return _regex(f"(?m){pattern}")


def _glob(pattern: str) -> Callable[[str], bool]:
    regex = _regex(f"(?:{glob_expression(pattern)})")
    return lambda path: regex.fullmatch(path) is not None


def _regex(expression: str) -> Any:
    options = re2.Options()
    options.max_mem = MAX_REGEX_BYTES
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True
    try:
        return re2.compile(expression, options)
    except UnicodeEncodeError:
        raise ScopeError("The pattern holds half of a character.") from None
    except re2.error as refusal:
        said = refusal.args[0] if refusal.args else b""
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ScopeError(f"The pattern is not one that is searched with: {reason[:200]}.") from None
