"""Where does a member see their own use?"""

from __future__ import annotations

from django.urls import path

from apps.quotas.api.views import UsageView

urlpatterns = [path("usage", UsageView.as_view())]
