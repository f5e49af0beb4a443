"""Each verb that changes something leaves a row of audit, and none holds content or secrets."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.audit.calls import reaches, verbs_below

# Where people, agents and workers change what others rely on.
EDGES = (
    "apps.accounts.services",
    "apps.accounts.tokens",
    "apps.agents.services",
    "apps.approvals.services",
    "apps.approvals.pauses",
    "apps.approvals.wishes",
    "apps.artifacts.services",
    "apps.boundary.children",
    "apps.boundary.edits",
    "apps.boundary.external",
    "apps.boundary.lost",
    "apps.boundary.pausing",
    "apps.boundary.pipeline",
    "apps.boundary.services",
    "apps.boundary.together",
    "apps.grants.services.choosing",
    "apps.grants.services.granting",
    "apps.grants.services.pinning",
    "apps.grants.services.policy",
    "apps.packages.services",
    "apps.proposals.services.drafts",
    "apps.proposals.services.review",
    "apps.proposals.services.testing",
    "apps.quotas.services",
    "apps.rooms.services",
    "apps.runs.services",
    "apps.web.services",
)
# What changes rows and is no change that anybody decided: the reason stands with each.
ITSELF_A_RECORD = {
    "apps.rooms.services.append_event": "the room's own record",
}
VERBS = verbs_below("apps")


def _edges() -> list[str]:
    found = []
    for module in EDGES:
        for name, member in vars(importlib.import_module(module)).items():
            if (
                inspect.isfunction(inspect.unwrap(member) if callable(member) else member)
                and not name.startswith("_")
                and getattr(member, "__module__", "") == module
            ):
                found.append(f"{module}.{name}")
    return [name for name in found if reaches(VERBS, name, writes=True)]


@pytest.mark.parametrize("verb", _edges())
def test_a_verb_that_changes_rows_leaves_a_row_of_audit(verb: str) -> None:
    assert reaches(VERBS, verb, writes=False) or verb in ITSELF_A_RECORD


def test_no_excuse_is_left_over() -> None:
    edges = set(_edges())
    assert ITSELF_A_RECORD.keys() <= edges
    assert not [verb for verb in ITSELF_A_RECORD if reaches(VERBS, verb, writes=False)]
