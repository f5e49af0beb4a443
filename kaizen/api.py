"""Which address under /api/ leads into which app?"""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import IsAuthenticated

from apps.core.views import no_such_address

_APPS = (
    "accounts",
    "rooms",
    "agents",
    "packages",
    "runs",
    "artifacts",
    "sandbox",
    "automations",
    "grants",
    "quotas",
    "proposals",
    "boundary",
    "web",
)
# Making the document takes a while, so strangers cannot ask for it.
_schema = SpectacularAPIView.as_view(permission_classes=[IsAuthenticated])
_docs = login_required(SpectacularSwaggerSplitView.as_view(url_name="schema"))

urlpatterns = [
    path("v1/schema/", _schema, name="schema"),
    path("v1/docs/", _docs, name="api-docs"),
    *(path("v1/", include(f"apps.{name}.api.urls")) for name in _APPS),
    re_path("", no_such_address),
]
