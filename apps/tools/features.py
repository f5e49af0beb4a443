"""Is a part of this deployment switched on?"""

from __future__ import annotations

from django.conf import settings

from apps.domain.tooling.features import Feature
from apps.sandbox.client import available
from apps.sandboxd.probe import ProbeStatus

_UNSURE = frozenset({ProbeStatus.READY, ProbeStatus.NOT_RUNNING, ProbeStatus.FAILED})
PATIENCE = 2.0
"""Seconds that a decision waits for the first answer of a sandbox; none by then means no."""


def feature_is_on(feature: Feature) -> bool:
    """Say whether the deployment has left this part on; its environment decides, not its tables."""
    return feature.value not in settings.KAIZEN_FEATURES_OFF


def lacking(runtimes: frozenset[str]) -> str:
    """Say which of these runtimes the sandbox lacks; one that is away is said elsewhere."""
    report = available(patience=PATIENCE) if runtimes else None
    return report.lacks(runtimes) if report is not None and report.ok else ""


def cannot_confine() -> bool:
    """Say whether the sandbox of this machine answers that no code can ever run confined in it.

    Where none answers nobody here knows: what is handed to workers may run on another machine.
    """
    return available(patience=PATIENCE).status not in _UNSURE


def sandbox_is_there() -> bool:
    """Say whether code can run confined; the answer is remembered for a moment."""
    return available(patience=PATIENCE).ok
