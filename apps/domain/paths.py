"""Say which names a file inside a tree, an archive or a workspace may have.

A name is judged as text only; opening what it names safely is the job of whoever opens it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

MAX_PART_BYTES = 255
MAX_NAME_BYTES = 1024
MAX_PARTS = 32

# Controls, invisible format characters, surrogates, and line and paragraph separators: a reviewer
# could not see them, and a terminal or an archive tool could act on them.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class BadPath(ValueError):
    """A name that may not be used; `code` is one closed word, the text is for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def check_name(name: str) -> tuple[str, ...]:
    """Return the parts of a relative file name, or refuse it with BadPath."""
    shown = ascii(name[:80])
    if not name:
        raise BadPath("empty", "A file name is empty.")
    for character in name:
        if unicodedata.category(character) in _HIDDEN:
            raise BadPath("hidden_character", f"{shown} holds a control or invisible character.")
    if "\\" in name:
        raise BadPath("backslash", f"{shown} holds a backslash.")
    if name.startswith("/"):
        raise BadPath("absolute", f"{shown} is absolute; names are relative.")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise BadPath("too_long", f"{shown} is longer than {MAX_NAME_BYTES} bytes.")
    parts = tuple(name.split("/"))
    if len(parts) > MAX_PARTS:
        raise BadPath("too_deep", f"{shown} has more than {MAX_PARTS} parts.")
    for part in parts:
        if part == "":
            raise BadPath("empty_part", f"{shown} has an empty part.")
        if part in (".", ".."):
            raise BadPath("dot_part", f"{shown} has a part '{part}'.")
        if len(part.encode()) > MAX_PART_BYTES:
            raise BadPath("too_long", f"{shown} has a part longer than {MAX_PART_BYTES} bytes.")
    return parts


def fold(name: str) -> str:
    """Return the form in which two names count as the same on some file system."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def check_tree(names: Iterable[str], *, max_files: int) -> Sequence[str]:
    """Return the names of one tree, or refuse a name, a clash, or a tree that is too large.

    Two names clash where they differ only by letter case or Unicode composition, and where one
    file would have to be a folder of another.
    """
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    kept: list[str] = []
    for name in names:
        if len(kept) >= max_files:
            raise BadPath("too_many", f"The tree has more than {max_files} files.")
        parts = check_name(name)
        folded = fold(name)
        if folded in seen:
            raise BadPath("clash", f"{name[:80]!a} and {seen[folded][:80]!a} clash.")
        seen[folded] = name
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            other = folders.setdefault(fold(folder), folder)
            if other != folder:
                raise BadPath("clash", f"Folders {folder[:80]!a} and {other[:80]!a} clash.")
        kept.append(name)
    for folded, name in seen.items():
        if folded in folders:
            raise BadPath("file_as_folder", f"{name[:80]!a} is a file and a folder at once.")
    return kept
