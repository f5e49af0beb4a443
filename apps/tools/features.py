"""Is a part of this deployment switched on?"""

from __future__ import annotations

from django.conf import settings

from apps.domain.tooling.features import Feature


def feature_is_on(feature: Feature) -> bool:
    """Say whether the deployment has left this part on; its environment decides, not its tables."""
    return feature.value not in settings.KAIZEN_FEATURES_OFF
