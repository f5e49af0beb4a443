"""How do proposals say no?"""

from __future__ import annotations

from collections.abc import Iterable

from apps.core.errors import Conflict, Forbidden, Invalid, NotFound
from apps.domain.problems import Problem


class ProposalNotFound(NotFound):
    """No proposal that this person may see has that id."""


class InvalidPackage(Invalid):
    """The manifest or the files break rules; every problem found is named."""

    code = "invalid_package"

    def __init__(self, problems: Iterable[tuple[str, Problem]]) -> None:
        """Take pairs of the input's name and a problem in it."""
        found = [(_place(root, problem.path), problem) for root, problem in problems]
        place, first = found[0]
        more = f" There are {len(found) - 1} more problems." if len(found) > 1 else ""
        super().__init__(
            f"{place}: {first.message}{more}",
            field=place,
            extra={
                "errors": [
                    {"field": where, "rule": problem.rule, "detail": problem.message}
                    for where, problem in found
                ]
            },
        )


class NotADraft(Conflict):
    """Only a draft can be changed."""

    code = "not_a_draft"


class NotReviewable(Conflict):
    """The proposal does not wait for a decision."""

    code = "not_reviewable"


class StaleRevision(Conflict):
    """The draft has been changed since it was read."""

    code = "stale_revision"


class StaleComparison(Conflict):
    """Another version became active since the difference was looked at."""

    code = "stale_comparison"


class NoCurrentReceipt(Conflict):
    """No passed test stands for exactly these bytes and this contract."""

    code = "no_current_receipt"


class OwnProposal(Forbidden):
    """Nobody decides on what they wrote themselves."""

    code = "own_proposal"


class AlreadyOpen(Conflict):
    """The author already has an open proposal of that version."""

    code = "proposal_open"


class TooManyCollaborators(Conflict):
    """As many members work on the draft as may."""

    code = "too_many_collaborators"


class TooManyOpen(Conflict):
    """The author has as many open proposals as one may have."""

    code = "too_many_proposals"


class NoSuchTest(NotFound):
    """The proposal has no test of that id."""


def _place(root: str, path: str) -> str:
    if not path:
        return root
    return f"{root}{path}" if path.startswith("[") else f"{root}.{path}"
