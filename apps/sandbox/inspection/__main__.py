"""Look at each file of the workspace under the name that it is to have, and say what was found."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from . import archives, images, markup, office, pdf, texts
from .findings import Drawing, Unfit

Check = Callable[[bytes, Drawing], str]

_SOURCES: Final = (
    "bash c cfg conf cpp css go h ini java js log mjs php py r rb rs sh sql srt tex toml ts tsx txt"
    " vtt yaml yml"
)
CHECKS: Final[dict[str, Check]] = {
    "docx": office.word,
    "xlsx": office.workbook,
    "pptx": office.slides,
    "pdf": pdf.pdf,
    "zip": archives.archive,
    "png": images.png,
    "jpg": images.jpeg,
    "jpeg": images.jpeg,
    "gif": images.gif,
    "webp": images.webp,
    "svg": markup.svg,
    "xml": markup.xml,
    "html": markup.html,
    "htm": markup.html,
    "csv": texts.table,
    "tsv": texts.table,
    "json": texts.data,
    "geojson": texts.data,
    "ipynb": texts.data,
    "jsonl": texts.rows_of_data,
    "ndjson": texts.rows_of_data,
    "md": texts.markdown,
    **dict.fromkeys(_SOURCES.split(), texts.text),
}
_END_OF_ARCHIVE: Final = b"PK\x05\x06"


def look(name: str, content: bytes) -> dict[str, Any]:
    """Say of one file what it is and what there is to see, or why it is unfit."""
    ending = name.rpartition("/")[2].rpartition(".")[2].lower()
    check = CHECKS.get(ending)
    if check is None:
        return {"unfit": "No file with this ending is kept, because none can be checked."}
    drawing = Drawing()
    try:
        if not content:
            raise Unfit("It is empty.")
        media = check(content, drawing)
        if check not in (office.word, office.workbook, office.slides, archives.archive):
            _no_archive_inside(content)
    except Unfit as problem:
        return {"unfit": str(problem)[:300]}
    except (RecursionError, MemoryError, IndexError, struct.error) as problem:
        return {"unfit": f"It cannot be read: {type(problem).__name__}."}
    return {"media": media, "preview": drawing.as_json()}


def _no_archive_inside(content: bytes) -> None:
    """A file that also opens as an archive is two files, of which nobody sees the second."""
    tail = content[-65_600:]
    place = tail.rfind(_END_OF_ARCHIVE)
    while place >= 0:
        comment = tail[place + 20 : place + 22]
        if len(comment) == 2 and place + 22 + int.from_bytes(comment, "little") == len(tail):
            raise Unfit("It is an archive at the same time.")
        place = tail.rfind(_END_OF_ARCHIVE, 0, place)


def main() -> None:
    """Read the names, look at the files in their order, and answer once."""
    channel = socket.socket(fileno=3)
    names: list[str] = json.loads(sys.stdin.buffer.read())
    found = [
        look(name, Path(f"/workspace/{place}").read_bytes()) for place, name in enumerate(names)
    ]
    data = json.dumps({"files": found}, allow_nan=False).encode("utf-8", "replace")
    channel.sendall(len(data).to_bytes(4, "big") + data)
    os._exit(0)


if __name__ == "__main__":
    main()
