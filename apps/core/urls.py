"""Where do probes and scrapers ask?"""

from __future__ import annotations

from django.urls import path

from apps.core.views import healthz, metrics, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
