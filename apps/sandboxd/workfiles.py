"""Say what goes into a workspace and what comes back out, and how both travel over the socket."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from apps.domain.paths import BadPath, check_tree
from apps.domain.wire import BadFrame, JsonValue
from apps.domain.words import visible

MIB: Final = 1024 * 1024
MAX_WORK_FILES: Final = 2_000
MAX_WORK_BYTES: Final = 64 * MIB
MAX_WORK_FILE: Final = 32 * MIB
MAX_LEFT_OUT: Final = 100
MAX_WORK_BODY: Final = MAX_WORK_BYTES + 6 * MIB
"""Bytes and names together; names travel beside the bytes, because a header is small."""

_MAX_SHOWN: Final = 200


class WorkFile(NamedTuple):
    """A file of a workspace: its name, its bytes, and whether it may be executed."""

    name: str
    content: bytes
    executable: bool = False


class Known(NamedTuple):
    """What is known of a file without its bytes."""

    size: int
    digest: bytes
    executable: bool


class LeftOut(NamedTuple):
    """Something in a workspace that does not come back, and the code of the reason."""

    name: str
    code: str


@dataclass(frozen=True, slots=True)
class WorkChanges:
    """How a workspace differs from what was put into it.

    `changed` are new files and those whose bytes or executable bit differ; `removed` are no files
    any more. What is `left_out` stays as it was before. Where `over` holds a code, the workspace
    is too large to come back at all and the lists say nothing.
    """

    changed: tuple[WorkFile, ...] = ()
    removed: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    left_out_total: int = 0
    over: str = ""


class BadWorkFiles(ValueError):
    """Files that no workspace takes; the sentence says why."""


def known_of(files: Sequence[WorkFile]) -> dict[str, Known]:
    """Return what is to be remembered of the files that were put into a workspace."""
    return {
        file.name: Known(len(file.content), hashlib.sha256(file.content).digest(), file.executable)
        for file in files
    }


def check_work_files(files: Sequence[WorkFile]) -> None:
    """Refuse files that are too many, too large or badly named with BadWorkFiles."""
    try:
        check_tree((file.name for file in files), max_files=MAX_WORK_FILES)
    except BadPath as problem:
        raise BadWorkFiles(str(problem)) from problem
    for file in files:
        if len(file.content) > MAX_WORK_FILE:
            raise BadWorkFiles(
                f"The file {file.name[:80]!a} has more than {MAX_WORK_FILE // MIB} MiB."
            )
    if sum(len(file.content) for file in files) > MAX_WORK_BYTES:
        raise BadWorkFiles(f"A workspace has more than {MAX_WORK_BYTES // MIB} MiB.")


def shown_name(name: str) -> str:
    """Return a name that may be no text at all in a form that travels and that people can read.

    What a terminal would obey, or what would hide, is made visible.
    """
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return visible(text.replace("\n", "\\x0a").replace("\t", "\\x09"))[:_MAX_SHOWN]


def rows_of(files: Sequence[WorkFile]) -> list[JsonValue]:
    """Return the header's part of files."""
    return [[len(file.name.encode()), len(file.content), int(file.executable)] for file in files]


def bodies_of(files: Sequence[WorkFile]) -> Iterator[bytes]:
    """Yield the body's part of files."""
    for file in files:
        yield file.name.encode()
        yield file.content


def read_files(rows: Sequence[JsonValue], take: Callable[[int], bytes]) -> tuple[WorkFile, ...]:
    """Read files back, each part at its place in the body, or refuse them with BadFrame."""
    found: list[WorkFile] = []
    for row in rows:
        match row:
            case [int(name), int(size), 0 | 1 as executable] if name >= 0 and size >= 0:
                found.append(WorkFile(_name(take(name)), take(size), bool(executable)))
            case _:
                raise BadFrame("A file of a workspace is not described by three numbers.")
    return tuple(found)


def change_fields(changes: WorkChanges | None) -> dict[str, JsonValue] | None:
    """Return the header's part of changes."""
    if changes is None:
        return None
    return {
        "changed": rows_of(changes.changed),
        "removed": [len(name.encode()) for name in changes.removed],
        "left_out": [[shown_name(one.name), one.code] for one in changes.left_out],
        "left_out_total": changes.left_out_total,
        "over": changes.over,
    }


def change_bodies(changes: WorkChanges | None) -> Iterator[bytes]:
    """Yield the body's part of changes."""
    if changes is not None:
        yield from bodies_of(changes.changed)
        yield from (name.encode() for name in changes.removed)


def read_changes(value: JsonValue, take: Callable[[int], bytes]) -> WorkChanges | None:
    """Read changes back, or refuse them with BadFrame."""
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) != 5:
        raise BadFrame("The changes of a workspace are not an object of five.")
    match value:
        case {
            "changed": list(changed),
            "removed": list(removed),
            "left_out": list(left_out),
            "left_out_total": int(total),
            "over": str(over),
        }:
            return WorkChanges(
                changed=read_files(changed, take),
                removed=tuple(_removed(size, take) for size in removed),
                left_out=tuple(_left_out(row) for row in left_out),
                left_out_total=total,
                over=over,
            )
    raise BadFrame("The changes of a workspace are not complete.")


def _removed(size: JsonValue, take: Callable[[int], bytes]) -> str:
    if type(size) is not int or size < 0:
        raise BadFrame("A removed file is not described by a number.")
    return _name(take(size))


def _left_out(row: JsonValue) -> LeftOut:
    match row:
        case [str(name), str(code)]:
            return LeftOut(name, code)
    raise BadFrame("What was left out does not have a name and a code.")


def _name(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadFrame("The name of a file is not UTF-8.") from None
