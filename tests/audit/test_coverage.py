"""Each verb that changes something leaves a row of audit, and none holds content or secrets."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.audit.calls import Verb, reaches, verbs_below

# Where people, agents and workers change what others rely on.
EDGES = (
    "apps.accounts.services",
    "apps.accounts.tokens",
    "apps.agents.services",
    "apps.approvals.services",
    "apps.approvals.pauses",
    "apps.approvals.wishes",
    "apps.artifacts.drafts",
    "apps.artifacts.native",
    "apps.artifacts.services",
    "apps.artifacts.sharing",
    "apps.automations.services",
    "apps.automations.starting",
    "apps.boundary.children",
    "apps.boundary.edits",
    "apps.boundary.external",
    "apps.boundary.lost",
    "apps.boundary.pausing",
    "apps.boundary.pipeline",
    "apps.boundary.services",
    "apps.boundary.together",
    "apps.broker.services",
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
    "apps.runs.children",
    "apps.runs.services",
    "apps.web.services",
)
# What changes rows and writes no row of audit itself; the reason stands with each.
ACCOUNTED_FOR = {
    "apps.approvals.wishes.name_trigger": "a note beside a run whose start is recorded",
    "apps.artifacts.drafts.append_draft": "a piece; begin, end and the call itself are recorded",
    "apps.artifacts.native.hold_files": "places of files; keeping each file in one is recorded",
    "apps.boundary.children.stop_children": "the parent's stop is recorded, and each child's end",
    "apps.boundary.pipeline.crossing_of": "a read; carrying out what it hands back is recorded",
    "apps.grants.services.policy.lock_policy": "a part of the change that is recorded",
    "apps.grants.services.policy.renew": "a part of the change that is recorded",
    "apps.quotas.services.reserve_call": "a count that the call's own row accounts for",
    "apps.quotas.services.reserve_step": "a count that the run's own row accounts for",
    "apps.quotas.services.settle_step": "a count that the run's own row accounts for",
    "apps.quotas.services.close_call": "a count that the call's own row accounts for",
    "apps.quotas.services.close_left_behind": "counts that nobody closed, once their work is over",
    "apps.quotas.services.forget_old": "sums of past windows, which limit nothing any more",
    "apps.runs.services.append_journal": "the run's own record",
    "apps.runs.services.park_run": "a wait, which the room is told; starts and ends are recorded",
    "apps.runs.services.wake": "the end of a wait, likewise",
    "apps.runs.services.keep_call": "a proposal, whose one end is recorded",
    "apps.runs.services.settle_call": "the row itself; the step that settles records it",
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
    assert reaches(VERBS, verb, writes=False) or verb in ACCOUNTED_FOR


def test_no_excuse_is_left_over() -> None:
    assert ACCOUNTED_FOR.keys() <= set(_edges())
    assert not [verb for verb in ACCOUNTED_FOR if reaches(VERBS, verb, writes=False)]


def test_every_module_of_verbs_is_walked() -> None:
    """A new module of services cannot stay outside by being forgotten."""
    changing = {
        name.rpartition(".")[0]
        for name, verb in VERBS.items()
        if verb.writes and ".services" in name and not name.startswith("apps.core")
    }
    assert changing <= {*EDGES, "apps.audit.services"}


def test_a_verb_that_only_changes_rows_would_be_seen() -> None:
    quiet = Verb("quiet", writes=True)
    honest = Verb("honest", calls={"quiet", "apps.audit.services.record"})
    verbs = {"quiet": quiet, "honest": honest, "outer": Verb("outer", calls={"quiet"})}
    assert all(reaches(verbs, name, writes=True) for name in verbs)
    assert [name for name in verbs if reaches(verbs, name, writes=False)] == ["honest"]
