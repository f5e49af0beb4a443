"""Which address under /api/ leads into which app?"""

from __future__ import annotations

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from apps.core.views import no_such_address

_APPS = (
    "accounts",
    "rooms",
    "agents",
    "packages",
    "runs",
    "artifacts",
    "grants",
    "proposals",
    "boundary",
    "web",
)

urlpatterns = [
    path("v1/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("v1/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    *(path("v1/", include(f"apps.{name}.api.urls")) for name in _APPS),
    re_path("", no_such_address),
]
