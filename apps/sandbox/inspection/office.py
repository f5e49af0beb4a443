"""Is this a Word, Excel or PowerPoint file, without macros, and what does it say?

The package is an archive of XML parts. Every part is unpacked and read, and none may declare an
entity, hold a program, or pull something in from outside.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Final

from .archives import Archive
from .findings import MAX_CELL, MAX_COLUMNS, MAX_ROWS, Drawing, Unfit, count
from .markup import Attributes, local, read_xml

_WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_SHEET: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_SLIDES: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_MAIN: Final = {_WORD: "document", _SHEET: "workbook", _SLIDES: "presentation"}
_PROGRAMS: Final = ("macroenabled", "vbaproject", "oleobject", "activex", "vbadata")
# Fields and links that start a program, or fetch something when the file is opened.
_FIELDS: Final = re.compile(r"DDE(?:AUTO)?\s|INCLUDE(?:PICTURE|TEXT)\s", re.IGNORECASE)
_LINKS: Final = {"ddelink", "olelink"}
_STRINGS: Final = 200_000
_PROGRAM: Final = "It holds a macro or another program."
_OUTSIDE: Final = "It pulls something in from outside."


@dataclass(slots=True)
class Relation:
    """Where one part points to."""

    kind: str
    target: str
    outside: bool


@dataclass(slots=True)
class Package:
    """An opened office package: its archive, the types of its parts, and its main part."""

    archive: Archive
    types: dict[str, str] = field(default_factory=dict)
    main: str = ""

    def relations(self, part: str) -> dict[str, Relation]:
        """Return what a part points to, by id."""
        folder, name = posixpath.split(part)
        place = posixpath.join(folder, "_rels", f"{name}.rels")
        found: dict[str, Relation] = {}
        if place not in self.archive.names:
            return found

        def start(element: str, given: Attributes) -> None:
            if local(element) == "Relationship":
                outside = given.get("TargetMode") == "External"
                target = given.get("Target", "")
                whole = target if outside else posixpath.normpath(posixpath.join(folder, target))
                kind = given.get("Type", "").rpartition("/")[2]
                found[given.get("Id", "")] = Relation(kind, whole.lstrip("/"), outside)

        read_xml(self.archive.read(place), start=start)
        return found

    def one(self, part: str, kind: str) -> str | None:
        """Return the part that another one points to as this kind."""
        targets = (r.target for r in self.relations(part).values() if r.kind == kind)
        return next((one for one in targets if one in self.archive.names), None)


def word(content: bytes, drawing: Drawing) -> str:
    """Check a Word file."""
    package = _opened(content, _WORD)
    _draw_document(package, drawing)
    return _WORD


def workbook(content: bytes, drawing: Drawing) -> str:
    """Check an Excel file."""
    package = _opened(content, _SHEET)
    _draw_sheets(package, drawing)
    return _SHEET


def slides(content: bytes, drawing: Drawing) -> str:
    """Check a PowerPoint file."""
    package = _opened(content, _SLIDES)
    _draw_slides(package, drawing)
    return _SLIDES


def _opened(content: bytes, media: str) -> Package:
    archive = Archive(content)
    archive.check_all()
    if "[Content_Types].xml" not in archive.names:
        raise Unfit("It is an archive, but no office file.")
    package = Package(archive)
    endings: dict[str, str] = {}

    def start(element: str, given: Attributes) -> None:
        if local(element) == "Override":
            package.types[given.get("PartName", "").lstrip("/")] = given.get("ContentType", "")
        elif local(element) == "Default":
            endings[given.get("Extension", "").lower()] = given.get("ContentType", "")

    read_xml(archive.read("[Content_Types].xml"), start=start)
    said = [*package.types.values(), *endings.values(), *archive.names]
    if any(word in one.lower() for one in said for word in _PROGRAMS):
        raise Unfit(_PROGRAM)
    for relation in package.relations("").values():
        if relation.kind == "officeDocument" and not relation.outside:
            package.main = relation.target
    if package.types.get(package.main) != f"{media}.main+xml" or package.main not in archive.names:
        raise Unfit(f"Its main part is no {_MAIN[media]}, so its name does not fit its content.")
    _check_parts(package)
    return package


def _check_parts(package: Package) -> None:
    for name in sorted(package.archive.names):
        # Readers know a part whichever way its name is written.
        if name.lower().endswith(".rels"):
            read_xml(package.archive.read(name), start=_reaches_nowhere)
        elif name.lower().endswith((".xml", ".vml")):
            _check_fields(package.archive.read(name))


def _reaches_nowhere(element: str, given: Attributes) -> None:
    # A link that a reader clicks is harmless; anything else outside is fetched when it is opened.
    outside = given.get("TargetMode", "").lower() == "external"
    if outside and given.get("Type", "").rpartition("/")[2] != "hyperlink":
        raise Unfit(_OUTSIDE)
    if any(word in given.get("Type", "").lower() for word in _PROGRAMS):
        raise Unfit(_PROGRAM)


def _check_fields(content: bytes) -> None:
    """Refuse a part whose fields do something; one may be written in several pieces."""
    said: list[str] = []
    takes = False

    def start(element: str, given: Attributes) -> None:
        nonlocal takes
        takes = local(element) == "instrText"
        if local(element).lower() in _LINKS:
            raise Unfit(_OUTSIDE)
        if local(element) == "fldSimple":
            said.extend([" ", *(v for k, v in given.items() if local(k) == "instr"), " "])

    def end(element: str) -> None:
        nonlocal takes
        takes = False

    def text(words: str) -> None:
        if takes:
            said.append(words)

    read_xml(content, start=start, end=end, text=text)
    if _FIELDS.search("".join(said) + " "):
        raise Unfit(_OUTSIDE)


def _draw_document(package: Package, drawing: Drawing) -> None:
    state = _Document(drawing)
    read_xml(package.archive.read(package.main), start=state.start, end=state.end, text=state.text)
    drawing.summary = (
        f"A document of {count(state.paragraphs, 'paragraph')} and {count(state.tables, 'table')}."
    )


class _Document:
    """Reads paragraphs and tables; a table inside another one counts as text of its cell."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.paragraphs = self.tables = self._inside = 0
        self._words: list[str] = []
        self._style = ""
        self._rows: list[list[str]] = []
        self._takes = False

    def start(self, element: str, given: Attributes) -> None:
        match local(element):
            case "p":
                self._style = ""
                if not self._inside:
                    self._words = []
            case "pStyle":
                self._style = next((v for k, v in given.items() if local(k) == "val"), "")
            case "t":
                self._takes = True
            case "tab":
                self._words.append(" ")
            case "br":
                self._words.append("\n")
            case "tbl":
                self._inside += 1
                if self._inside == 1:
                    self.tables += 1
                    self._rows = []
            case "tr" if self._inside == 1:
                self._rows.append([])
            case "tc" if self._inside == 1:
                self._words = []

    def end(self, element: str) -> None:
        match local(element):
            case "t":
                self._takes = False
            case "p":
                if self._inside:
                    self._words.append("\n")
                else:
                    self.paragraphs += 1
                    heading = self._style.lower().startswith(("heading", "title"))
                    self.drawing.text("".join(self._words), "heading" if heading else "text")
            case "tc" if self._inside == 1 and self._rows:
                if len(self._rows) <= MAX_ROWS + 1 and len(self._rows[-1]) <= MAX_COLUMNS + 1:
                    self._rows[-1].append("".join(self._words).strip())
            case "tbl":
                self._inside -= 1
                if not self._inside:
                    self.drawing.table(self._rows)

    def text(self, said: str) -> None:
        if self._takes and not self.drawing.full:
            self._words.append(said)


def _draw_slides(package: Package, drawing: Drawing) -> None:
    relations = package.relations(package.main)
    order: list[str] = []

    def start(element: str, given: Attributes) -> None:
        if local(element) == "sldId":
            key = next((v for k, v in given.items() if " " in k and local(k) == "id"), "")
            if key in relations:
                order.append(relations[key].target)

    read_xml(package.archive.read(package.main), start=start)
    drawing.summary = f"A presentation of {count(len(order), 'slide')}."
    for number, part in enumerate(order, 1):
        if part not in package.archive.names or not drawing.part(f"Slide {number}"):
            break
        drawing.lines(_paragraphs(package.archive.read(part)))


def _paragraphs(content: bytes) -> list[str]:
    lines: list[str] = []
    words: list[str] = []
    takes = False

    def start(element: str, given: Attributes) -> None:
        nonlocal takes, words
        if local(element) == "p":
            words = []
        takes = local(element) == "t"

    def end(element: str) -> None:
        nonlocal takes
        takes = False
        if local(element) == "p" and "".join(words).strip():
            lines.append("".join(words).strip())

    def text(said: str) -> None:
        if takes and len(lines) <= MAX_ROWS:
            words.append(said)

    read_xml(content, start=start, end=end, text=text)
    return lines


def _draw_sheets(package: Package, drawing: Drawing) -> None:
    relations = package.relations(package.main)
    sheets: list[tuple[str, str]] = []

    def start(element: str, given: Attributes) -> None:
        if local(element) == "sheet":
            key = next((v for k, v in given.items() if " " in k and local(k) == "id"), "")
            if key in relations:
                sheets.append((given.get("name", ""), relations[key].target))

    read_xml(package.archive.read(package.main), start=start)
    strings = _strings(package)
    drawing.summary = f"A workbook of {count(len(sheets), 'sheet')}."
    for name, part in sheets:
        if part not in package.archive.names or not drawing.part(name):
            break
        cells = _Cells(strings)
        read_xml(package.archive.read(part), start=cells.start, end=cells.end, text=cells.text)
        drawing.cut = drawing.cut or cells.cut
        drawing.table(cells.rows)


def _strings(package: Package) -> list[str]:
    part = package.one(package.main, "sharedStrings")
    found: list[str] = []
    if part is None:
        return found
    words: list[str] = []
    takes = False

    def start(element: str, given: Attributes) -> None:
        nonlocal takes, words
        if local(element) == "si":
            words = []
        takes = local(element) == "t"

    def end(element: str) -> None:
        nonlocal takes
        takes = False
        if local(element) == "si" and len(found) < _STRINGS:
            found.append("".join(words)[: MAX_CELL + 1])

    def text(said: str) -> None:
        if takes:
            words.append(said)

    read_xml(package.archive.read(part), start=start, end=end, text=text)
    return found


class _Cells:
    """Reads the first rows and columns of a sheet, each value as it was written."""

    def __init__(self, strings: list[str]) -> None:
        self.rows: list[list[str]] = []
        self.cut = False
        self._strings = strings
        self._column = 0
        self._kind = ""
        self._words: list[str] = []
        self._formula: list[str] = []
        self._into: list[str] | None = None

    def start(self, element: str, given: Attributes) -> None:
        match local(element):
            case "row":
                self.cut = self.cut or len(self.rows) >= MAX_ROWS
                if not self.cut:
                    self.rows.append([])
                self._column = 0
            case "c":
                letters = re.match(r"[A-Z]{1,3}", given.get("r", ""))
                self._column = _number(letters[0]) if letters else self._column + 1
                self._kind = given.get("t", "n")
                self._words, self._formula = [], []
            case "v" | "t":
                self._into = self._words
            case "f":
                self._into = self._formula

    def end(self, element: str) -> None:
        self._into = None
        if local(element) != "c" or self.cut or not self.rows:
            return
        if self._column > MAX_COLUMNS:
            return
        row = self.rows[-1]
        row.extend([""] * (self._column - 1 - len(row)))
        row.append(self._value())

    def text(self, said: str) -> None:
        if self._into is not None and not self.cut:
            self._into.append(said)

    def _value(self) -> str:
        said = "".join(self._words)
        if not said and self._formula:
            return f"={''.join(self._formula)}"
        if self._kind == "s" and said.isascii() and said.isdigit():
            place = int(said[:9])
            return self._strings[place] if place < len(self._strings) else ""
        if self._kind == "b":
            return "TRUE" if said == "1" else "FALSE"
        return said


def _number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
