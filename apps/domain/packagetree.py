"""Which files may a package consist of, and which digest stands for them?

A tree is a mapping from paths to bytes. Its paths will be written under a directory of ours,
so each is judged as text here, before anything exists that it could escape from.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from apps.domain.archives import (
    MANIFEST_NAME,
    ArchiveLimits,
    BadArchive,
    read_archive,
    write_archive,
)
from apps.domain.canonical import BadJson, digest, digest_bytes, strict_loads
from apps.domain.problems import Problem, Problems, Rejected
from apps.domain.words import shown

__all__ = [
    "MANIFEST_NAME",
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_TREE_BYTES",
    "ArchiveLimits",
    "BadArchive",
    "BadTree",
    "check_tree",
    "path_problem",
    "read_archive",
    "tree_digest",
    "tree_problems",
    "write_archive",
]

MAX_FILES: Final = 64
MAX_FILE_BYTES: Final = 128 * 1024
MAX_TREE_BYTES: Final = 1024 * 1024
MAX_PATH_BYTES: Final = 240
MAX_PARTS: Final = 16
PACKAGE_JSON: Final = "package.json"

# Reserved wherever they stand: their content would act without being read.
_RESERVED_PARTS: Final = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})
# Reserved at the root only: package managers and we ourselves give them a meaning.
_RESERVED_ROOTS: Final = frozenset({".npmrc", ".yarnrc", ".kaizen", MANIFEST_NAME})
_COMPILED: Final = (".pyc", ".pyo", ".pyd", ".so", ".dll", ".dylib")


class BadTree(Rejected):
    """A file tree that no package may have."""


def check_tree(
    files: Mapping[str, bytes], *, name: str | None = None, version: str | None = None
) -> None:
    """Refuse a tree that breaks a rule, naming every problem found up to the bound."""
    problems = tree_problems(files, name=name, version=version)
    if problems:
        raise BadTree(problems)


def tree_problems(
    files: Mapping[str, bytes], *, name: str | None = None, version: str | None = None
) -> list[Problem]:
    """Return what is wrong with a tree; a name and version are compared with package.json."""
    problems = Problems()
    _check_sizes(files, problems)
    for path in sorted(files):
        if problems.full:
            break
        refused = path_problem(path)
        if refused is not None:
            problems.add(path, *refused)
    _check_clashes(files, problems)
    _check_package_json(files, problems, name, version)
    return problems.found()


def path_problem(path: str) -> tuple[str, str] | None:
    """Return the rule that a path breaks, with a sentence, or nothing when it breaks none."""
    if not path:
        return "empty_path", "A path is empty."
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "encoding", "The path holds a lone surrogate."
    if len(encoded) > MAX_PATH_BYTES:
        return "path_length", f"The path is longer than {MAX_PATH_BYTES} bytes."
    if any(unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} for char in path):
        return "control_character", "The path holds a control or invisible character."
    if "\\" in path:
        return "backslash", "The path holds a backslash."
    if path.startswith("/") or path[1:2] == ":":
        return "absolute_path", "The path is absolute."
    return _parts_problem(path.split("/"))


def tree_digest(files: Mapping[str, bytes]) -> str:
    """Return the digest of a whole tree: every path with the digest of its bytes."""
    return digest([[path, digest_bytes(files[path])] for path in sorted(files)])


def _parts_problem(parts: list[str]) -> tuple[str, str] | None:
    if len(parts) > MAX_PARTS:
        return "path_depth", f"The path is deeper than {MAX_PARTS} parts."
    for part in parts:
        if not part:
            return "empty_part", "A part of the path is empty."
        if part in {".", ".."}:
            return "traversal", 'The path has a part "." or "..".'
        if part != part.strip() or part.endswith("."):
            return "trailing_character", "A part starts or ends with a space, or ends with a dot."
        if _key(part) in _RESERVED_PARTS:
            return "reserved", f"{shown(part)} is a reserved name."
    if _key(parts[0]) in _RESERVED_ROOTS:
        return "reserved", f"{shown(parts[0])} is a reserved name at the root."
    if _key(parts[-1]).endswith(_COMPILED):
        return "compiled", "Compiled code cannot be reviewed."
    return None


def _key(text: str) -> str:
    """Return what two names share that some file system would take for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _check_sizes(files: Mapping[str, bytes], problems: Problems) -> None:
    if len(files) > MAX_FILES:
        problems.add("", "file_count", f"There are {len(files)} files; {MAX_FILES} may be.")
    for path in sorted(files):
        if problems.full:
            return
        if len(files[path]) > MAX_FILE_BYTES:
            problems.add(path, "file_size", f"The file is larger than {MAX_FILE_BYTES:,} bytes.")
    if sum(map(len, files.values())) > MAX_TREE_BYTES:
        problems.add("", "tree_size", f"The files are larger than {MAX_TREE_BYTES:,} bytes in all.")


def _check_clashes(files: Mapping[str, bytes], problems: Problems) -> None:
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in sorted(files):
        key = _key(path)
        if key in seen:
            problems.add(
                path, "clash", f"On some systems this is the same file as {shown(seen[key])}."
            )
        seen.setdefault(key, path)
        parts = key.split("/")
        for end in range(1, len(parts)):
            folders.setdefault("/".join(parts[:end]), path)
    for key in sorted(seen.keys() & folders.keys()):
        problems.add(
            seen[key], "file_as_folder", f"It is a file, and {shown(folders[key])} needs a folder."
        )


def _check_package_json(
    files: Mapping[str, bytes], problems: Problems, name: str | None, version: str | None
) -> None:
    raw = files.get(PACKAGE_JSON)
    if raw is None:
        problems.add(PACKAGE_JSON, "required", "The file is missing.")
        return
    try:
        found: Any = strict_loads(raw, max_bytes=MAX_FILE_BYTES)
    except BadJson as refusal:
        problems.add(PACKAGE_JSON, "json", refusal.message)
        return
    if not isinstance(found, dict):
        problems.add(PACKAGE_JSON, "json", "It is not a JSON object.")
        return
    for field, wanted in (("name", name), ("version", version)):
        given = found.get(field)
        if not isinstance(given, str) or not given:
            problems.add(f"{PACKAGE_JSON}.{field}", "required", "It is missing or not a string.")
        elif wanted is not None and given != wanted:
            problems.add(
                f"{PACKAGE_JSON}.{field}",
                "disagrees",
                f"It says {shown(given)}, and the manifest says {shown(wanted)}.",
            )
