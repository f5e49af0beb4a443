"""Where do probes ask?"""

from __future__ import annotations

from django.urls import path

from apps.core.views import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
