"""Which installed dependencies does nobody need any more?"""

from __future__ import annotations

from apps.packages.models import PackageVersion
from apps.proposals.models import PackageProposal
from apps.proposals.services.drafts import OPEN_STATES
from apps.sandbox.store import the_store


def collect_dependencies() -> int:
    """Remove trees that no admitted version and no open proposal names; return how many."""
    return the_store().collect(needed_dependencies)


def needed_dependencies() -> set[str]:
    """Return what versions and open proposals name, in one statement.

    In two, a proposal that is approved between them would be in neither.
    """
    kept = PackageVersion.objects.exclude(dependencies="").values_list("dependencies")
    drafted = PackageProposal.objects.filter(state__in=OPEN_STATES).exclude(dependencies="")
    both = kept.union(drafted.values_list("dependencies"))
    return {digest for (digest,) in both}
