"""Is this well-formed markup that declares nothing and reaches nowhere? XML, SVG and HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Final, NoReturn
from xml.parsers import expat

from .findings import Drawing, Unfit
from .texts import decoded

MAX_DEPTH: Final = 200
MAX_ELEMENTS: Final = 1_000_000
_SVG: Final = "http://www.w3.org/2000/svg"
_RUNS: Final = {"script", "foreignobject", "iframe", "object", "embed", "handler", "listener"}
_HTML: Final = "http://www.w3.org/1999/xhtml "
_INSIDE: Final = re.compile(r"(?:#|data:image/(?:png|jpeg|gif|webp)[;,])", re.IGNORECASE)
# What styles fetch, in a sheet or in an attribute.
_FETCHES: Final = re.compile(
    r"url\(\s*+[\"']?+\s*+(?!#|data:image/(?:png|jpeg|gif|webp)[;,])"
    r"|image-set\(|\bsrc\(|@import",
    re.IGNORECASE,
)
_BASE: Final = "http://www.w3.org/XML/1998/namespace base"
_OUTSIDE: Final = "A drawing may not load or link anything from outside."

Attributes = dict[str, str]
OnStart = Callable[[str, Attributes], None]


def read_xml(
    content: bytes,
    *,
    start: OnStart,
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
    instruction: Callable[[str, str], None] | None = None,
    may_name_a_type: bool = False,
) -> None:
    """Read XML piece by piece; names come as `namespace local`. No entity is ever expanded."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = count = 0

    def starts(name: str, attributes: Attributes) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:
            raise Unfit("Its markup is nested too deeply or has too many elements.")
        start(name, attributes)

    def ends(name: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(name)

    def declares(*_: object) -> NoReturn:
        raise Unfit("It declares entities of its own.")

    def doctype(_name: str, _system: str | None, _public: str | None, inside: int) -> None:
        if inside or not may_name_a_type:
            raise Unfit("It declares a document type of its own.")

    parser.StartElementHandler = starts
    parser.EndElementHandler = ends
    parser.CharacterDataHandler = text
    parser.ProcessingInstructionHandler = instruction
    parser.EntityDeclHandler = declares
    parser.UnparsedEntityDeclHandler = declares
    parser.StartDoctypeDeclHandler = doctype
    parser.ExternalEntityRefHandler = declares
    try:
        parser.Parse(content, True)
    except expat.ExpatError as problem:
        raise Unfit(f"It is not well-formed: {problem}.") from None
    except (LookupError, ValueError) as problem:
        raise Unfit(f"Its markup cannot be read: {problem}.") from None


def local(name: str) -> str:
    """Return an element's own name."""
    return name.rpartition(" ")[2]


def svg(content: bytes, drawing: Drawing) -> str:
    """Check a drawing: it runs nothing and loads nothing."""
    inside: list[str] = []
    styles: list[str] = []

    def start(name: str, attributes: Attributes) -> None:
        if not inside and name != f"{_SVG} svg":
            raise Unfit("Its outermost element is no drawing.")
        if "style" in inside:
            raise Unfit("A style sheet of a drawing may not hold elements.")
        inside.append(local(name).lower())
        if name.startswith(_HTML) or inside[-1] in _RUNS:
            raise Unfit(f"A drawing may not hold <{local(name)}>.")
        for key, value in attributes.items():
            word = local(key).lower()
            # An animation sets another attribute to what is not looked at here.
            set_later = local(value).rpartition(":")[2].strip().lower()
            if word.startswith("on") or (word == "attributename" and set_later.startswith("on")):
                raise Unfit("A drawing may not react to anything.")
            if word in ("href", "src") and not _INSIDE.match(value.strip()):
                raise Unfit(_OUTSIDE)
            if key == _BASE or (word == "attributename" and set_later in ("href", "src", "base")):
                raise Unfit(_OUTSIDE)
            # An escape could spell any word.
            if _FETCHES.search(value) or ("\\" in value and "(" in value):
                raise Unfit(_OUTSIDE)

    def end(name: str) -> None:
        if inside.pop() == "style":
            sheet = "".join(styles)
            styles.clear()
            if _FETCHES.search(sheet) or "\\" in sheet:
                raise Unfit(_OUTSIDE)

    def text(said: str) -> None:
        if "style" in inside:
            styles.append(said)

    def instruction(name: str, said: str) -> None:
        if name == "xml-stylesheet":
            raise Unfit(_OUTSIDE)

    read_xml(
        content, start=start, end=end, text=text, instruction=instruction, may_name_a_type=True
    )
    drawing.summary = "A drawing."
    return "image/svg+xml"


def xml(content: bytes, drawing: Drawing) -> str:
    """Check any other XML."""
    read_xml(content, start=lambda name, attributes: None)
    drawing.summary = "An XML document."
    drawing.text(decoded(content), "source", 20_000)
    return "application/xml"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements = 0
        self.words: list[str] = []
        self.title = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements += 1
        if self.elements > MAX_ELEMENTS:
            raise Unfit("Its markup has too many elements.")
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "title" and not self.title:
            self.title = " ".join(data.split())
        elif self._inside not in ("script", "style"):
            self.words += [line for line in map(str.strip, data.splitlines()) if line]


def html(content: bytes, drawing: Drawing) -> str:
    """Check a page; it is handed out as a file and never shown in place."""
    page = _Page()
    page.feed(decoded(content))
    page.close()
    if not page.elements:
        raise Unfit("It holds no markup.")
    drawing.summary = f"A page{f': {page.title}' if page.title else ''}."
    for line in _first(page.words, 100):
        drawing.text(line)
    return "text/html"


def _first(lines: list[str], most: int) -> Iterator[str]:
    yield from lines[:most]
