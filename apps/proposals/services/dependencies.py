"""Which installed dependencies does nobody need any more?"""

from __future__ import annotations

from apps.packages.models import PackageVersion
from apps.proposals.models import PackageProposal
from apps.proposals.services.drafts import OPEN_STATES
from apps.sandbox.store import the_store


def collect_dependencies() -> int:
    """Remove trees that no admitted version and no open proposal names; return how many."""
    kept = PackageVersion.objects.exclude(dependencies="").values_list("dependencies", flat=True)
    drafted = PackageProposal.objects.filter(state__in=OPEN_STATES).exclude(dependencies="")
    needed = {*kept, *drafted.values_list("dependencies", flat=True)}
    return the_store().collect(needed)
