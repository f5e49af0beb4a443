"""Which parts of Kaizen can a deployment switch off as a whole?"""

from enum import StrEnum
from typing import Final


class Feature(StrEnum):
    """A part with a switch of its own; what hangs on it is never offered while it is off."""

    PACKAGES = "packages"
    DELEGATION = "delegation"
    CODE = "code"
    AUTOMATIONS = "automations"


FEATURES: Final = frozenset(feature.value for feature in Feature)
