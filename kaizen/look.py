"""How does the admin look?"""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static

# The same paper and ink as the member pages.
_PAPER = {
    "50": "#faf9f7",
    "100": "#f3f2ef",
    "200": "#e6e4df",
    "300": "#d3d0c9",
    "400": "#a5a19a",
    "500": "#76726b",
    "600": "#5a574f",
    "700": "#423f3b",
    "800": "#2c2a28",
    "900": "#1e1d1b",
    "950": "#151413",
}
_INK = {
    "50": "#eef3fb",
    "100": "#dde7f7",
    "200": "#bfd2ef",
    "300": "#8fb2e4",
    "400": "#5f8dd3",
    "500": "#3c6dbd",
    "600": "#2a57a5",
    "700": "#234885",
    "800": "#1f3c6c",
    "900": "#1b325a",
    "950": "#121f3a",
}


def _tokens(request: HttpRequest) -> str:
    return static("css/tokens.css")


def _pages(request: HttpRequest) -> str:
    return static("admin/kaizen.css")


def _mark(request: HttpRequest) -> str:
    return static("img/mark.svg")


def _keys(request: HttpRequest) -> str:
    return static("admin/keys.js")


ADMIN_LOOK: dict[str, Any] = {
    "SITE_TITLE": "Kaizen",
    "SITE_HEADER": "Kaizen",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_SYMBOL": "shield_lock",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _mark}],
    "LOGIN": {"form": "apps.accounts.forms.AdminSignIn"},
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "6px",
    "COLORS": {"base": _PAPER, "primary": _INK},
    "STYLES": [_tokens, _pages],
    "SCRIPTS": [_keys],
    "SIDEBAR": {"show_search": False, "navigation": "kaizen.sidebar.navigation"},
}
