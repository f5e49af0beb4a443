"""Which tool policy holds now? Kept in the process under its mark, and read again when that is new.

Whoever decides about a call reads the mark in a statement that it needs anyway (`policy_mark`), so
a change holds for the next call of every process without one more question to the database.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.db.models import Subquery, UUIDField

from apps.domain.canonical import NotCanonical
from apps.domain.pinning import Pins
from apps.domain.policy import NodeState, Path, PolicyTree, path_of
from apps.domain.tooling import Specification
from apps.grants.models import PinnedArguments, PolicyNode, PolicyState

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeploymentPolicy:
    """What administrators said, as a whole. Without a tree it could not be read: nothing passes."""

    mark: uuid.UUID | None = None
    tree: PolicyTree | None = None
    pins: Mapping[Path, Pins] = field(default_factory=dict)

    def pins_of(self, spec: Specification) -> Pins:
        """Return the arguments of a tool that the deployment sets itself."""
        return self.pins.get(path_of(spec), Pins())


_kept: DeploymentPolicy | None = None


def policy_mark() -> Subquery:
    """The mark of the policy that holds, to be read along with something else."""
    return Subquery(PolicyState.objects.values("mark")[:1], output_field=UUIDField())


def policy_under(mark: uuid.UUID | None) -> DeploymentPolicy:
    """Return the policy that holds under a mark that was just read."""
    global _kept
    kept = _kept
    if kept is not None and kept.mark == mark:
        return kept
    try:
        # A savepoint, so that whoever decides can still write down that it was refused.
        with transaction.atomic():
            read = _read(mark)
    except DatabaseError as away:
        log.error("policy_not_read", error=type(away).__name__)
        return DeploymentPolicy(mark=mark)
    _kept = read
    return read


def deployment_policy() -> DeploymentPolicy:
    """Return the policy that holds now, where nothing has read its mark yet."""
    return policy_under(PolicyState.objects.values_list("mark", flat=True).first())


def _read(mark: uuid.UUID | None) -> DeploymentPolicy:
    tree = read_tree(PolicyNode.objects.values_list("family", "surface", "endpoint", "state"))
    pins: dict[Path, Pins] = {}
    unreadable = set(tree.unreadable)
    rows = PinnedArguments.objects.values_list("family", "surface", "endpoint", "values")
    for family, surface, endpoint, values in rows:
        path = (family, surface, endpoint)
        pinned = _pins(values)
        if pinned is None:
            # What should be pinned is unknown, so the tool it concerns is not called at all.
            unreadable.add(path)
        else:
            pins[path] = pinned
    whole = PolicyTree(tree.states, frozenset(unreadable))
    return DeploymentPolicy(mark=mark, tree=whole, pins=pins)


def read_tree(rows: Any) -> PolicyTree:
    """Return the tree of these rows; a word that nobody knows shuts what hangs beneath it."""
    states: dict[Path, NodeState] = {}
    unreadable: set[Path] = set()
    known = {state.value: state for state in NodeState}
    for family, surface, endpoint, state in rows:
        path = tuple(word for word in (family, surface, endpoint) if word)
        if state in known:
            states[path] = known[state]
        else:
            unreadable.add(path)
    return PolicyTree(states, frozenset(unreadable))


def _pins(values: Any) -> Pins | None:
    if not isinstance(values, dict):
        return None
    try:
        return Pins.of(values)
    except NotCanonical:
        return None
