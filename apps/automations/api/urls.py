"""Where are automations?"""

from __future__ import annotations

from django.urls import path

from apps.automations.api.views import (
    AutomationRevocationView,
    AutomationStartView,
    AutomationsView,
    AutomationTokenView,
    AutomationView,
)

urlpatterns = [
    path("automations", AutomationsView.as_view()),
    path("automations/<uuid:automation_id>", AutomationView.as_view()),
    path("automations/<uuid:automation_id>/revoke", AutomationRevocationView.as_view()),
    path("automations/<uuid:automation_id>/token", AutomationTokenView.as_view()),
    path("automations/<uuid:automation_id>/start", AutomationStartView.as_view()),
]
