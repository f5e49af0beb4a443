"""How does the boundary say no before a call exists?"""

from __future__ import annotations

from apps.core.errors import Conflict, Invalid


class EditRefused(Invalid):
    """These arguments cannot stand in place of the ones that were proposed."""

    code = "edit_refused"


class BadProposal(Invalid):
    """What was proposed is not a call at all."""


class ProposalChanged(Conflict):
    """The same proposal id came back with another tool or other arguments."""

    code = "proposal_changed"
