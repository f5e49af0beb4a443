"""How does a proposal move? Drafts, their tests, and their decision."""

from apps.proposals.services.dependencies import collect_dependencies
from apps.proposals.services.drafts import (
    create_proposal,
    replace_draft,
    submit_proposal,
    withdraw_proposal,
)
from apps.proposals.services.review import approve_proposal, reject_proposal
from apps.proposals.services.sharing import share_proposal, unshare_proposal
from apps.proposals.services.testing import TEST_TASK, execute_test, request_test

__all__ = [
    "TEST_TASK",
    "approve_proposal",
    "collect_dependencies",
    "create_proposal",
    "execute_test",
    "reject_proposal",
    "replace_draft",
    "request_test",
    "share_proposal",
    "submit_proposal",
    "unshare_proposal",
    "withdraw_proposal",
]
