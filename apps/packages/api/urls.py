"""Where do programs look packages up?"""

from __future__ import annotations

from django.urls import path

from apps.packages.api.views import PackagesView, PackageView

urlpatterns = [
    path("packages", PackagesView.as_view()),
    path("packages/<package:name>", PackageView.as_view()),
]
