"""How does a body become something to look at? Safe pages for what models wrote.

Every page is an answer of its own with a policy that allows no script and no network. Markdown is
rendered here and cleaned by an allow-list; HTML is left as it is, because its policy holds it, but
for what no policy holds: a frame or a link connects to its host before it is stopped, and the name
of a host can carry words out.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from apps.artifacts.models import Artifact

_FRAME = "frame-ancestors 'self'; form-action 'none'; base-uri 'none'"
# Model-made markup may style itself, and that is all.
_STRANGER = f"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; {_FRAME}"
# Pages that we make around a text load our own style sheet and font.
_OURS = f"sandbox; default-src 'none'; style-src 'self'; font-src 'self'; img-src data:; {_FRAME}"
# Links in cleaned Markdown open a page of their own, outside the frame.
_LINKS = _OURS.replace("sandbox;", "sandbox allow-popups allow-popups-to-escape-sandbox;", 1)

# Neither an element nor a parser is needed: a browser sees these tags in exactly this spelling.
_REACHING = re.compile(
    r"<(?=(?:i?frame|fencedframe|portal|object|embed|link)[\s/>])", re.IGNORECASE
)

_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code"),
    *("ul", "ol", "li", "strong", "em", "s", "del", "a", "img"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_IMAGES = ("data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp")
# As an image none of these runs or loads anything, whatever it holds.
_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"}
_MAX_PICTURE = 8 * 1024 * 1024
_LINK_SCHEMES = ("http://", "https://", "mailto:", "#")


@dataclass(frozen=True, slots=True)
class Shown:
    """How one version is shown: as it is, or as the inside of our own page; and its policy."""

    policy: str
    inside: SafeString | None = None
    as_it_is: str | None = None
    drawing: str | None = None
    plain: str | None = None
    derived: dict[str, Any] | None = None
    """What was derived from a file when it was saved."""


def show(*, kind: str, body: str) -> Shown:
    """Decide how a body of this kind is shown."""
    match Artifact.Kind(kind):
        case Artifact.Kind.HTML:
            return Shown(policy=_STRANGER, as_it_is=_REACHING.sub("&lt;", body))
        case Artifact.Kind.SVG:
            # As an image, a drawing runs nothing and loads nothing, whatever it holds.
            encoded = base64.b64encode(body.encode("utf-8")).decode("ascii")
            return Shown(policy=_OURS, drawing=f"data:image/svg+xml;base64,{encoded}")
        case Artifact.Kind.MARKDOWN:
            return Shown(policy=_LINKS, inside=markdown(body))
        case Artifact.Kind.TEXT | Artifact.Kind.CODE:
            return Shown(policy=_OURS, plain=body)
        case Artifact.Kind.FILE:
            raise ValueError("A file has no body; it is shown with show_file.")


def show_file(*, media_type: str, content: bytes, derived: dict[str, Any] | None) -> Shown:
    """Decide how a file is shown: a picture as itself, anything else by what was derived of it.

    Nothing is parsed here: that happened in a sandbox, before the file was saved.
    """
    if media_type in _PICTURES and len(content) <= _MAX_PICTURE:
        encoded = base64.b64encode(content).decode("ascii")
        return Shown(policy=_OURS, drawing=f"data:{media_type};base64,{encoded}")
    return Shown(policy=_OURS, derived=derived or {"summary": "", "parts": [], "cut": False})


def markdown(text: str) -> SafeString:
    """Render Markdown to HTML in which only harmless elements are left."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    cleaned = nh3.clean(
        parser.render(text),
        tags=_TAGS,
        attributes={
            "a": {"href", "title", "target"},
            "img": {"src", "alt", "title"},
            "ol": {"start"},
            "th": {"align"},
            "td": {"align"},
        },
        attribute_filter=_harmless,
        url_schemes={"http", "https", "mailto", "data"},
        set_tag_attribute_values={"a": {"target": "_blank"}},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(cleaned)  # noqa: S308 (cleaned by the allow-list above)


def _harmless(tag: str, name: str, value: str) -> str | None:
    if name == "src":
        return value if value.startswith(_IMAGES) else None
    if name == "href":
        return value if value.lower().startswith(_LINK_SCHEMES) else None
    return value
