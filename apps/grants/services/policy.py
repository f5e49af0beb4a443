"""How is the tool policy changed? As a whole, on top of the revision that its writer saw."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import record
from apps.domain.policy import Level, NodeState, Path, level_of, node_words
from apps.domain.words import shown
from apps.grants.errors import BadPolicy, StalePolicy, TooManyNodes
from apps.grants.models import PolicyNode, PolicyState
from apps.grants.policy import read_tree

MAX_CHANGES = 200
MAX_NODES = 5_000
MAX_NOTE = 200
SHOWN_IN_AUDIT = 20

_WORD = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@transaction.atomic
def change_policy(
    *, actor: User, revision: int, changes: Mapping[Path, NodeState], note: str = ""
) -> PolicyState:
    """Say something at nodes of the policy, or take it back. All of it holds at once, or nothing.

    The next call of every process is judged by it, also where its run has begun long ago.
    """
    require(actor, Permission.POLICY_MANAGE)
    state = lock_policy(revision=revision)
    note = checked_note(note)
    for path, said in changes.items():
        _check(path, said)
    before = read_tree(PolicyNode.objects.values_list("family", "surface", "endpoint", "state"))
    real = {
        path: said
        for path, said in changes.items()
        if path in before.unreadable or before.state(path) is not said
    }
    if not real:
        return state
    if len(real) > MAX_CHANGES:
        raise BadPolicy(f"At most {MAX_CHANGES} nodes are changed at once.", field="changes")
    for path, said in real.items():
        _write(path, said, actor=actor, note=note)
    if PolicyNode.objects.count() > MAX_NODES:
        raise TooManyNodes(f"The policy has at most {MAX_NODES:,} nodes that say something.")
    renew(state, actor)
    record(
        actor=actor,
        action="policy.changed",
        subject=state,
        detail={
            "revision": state.revision,
            "count": len(real),
            "changes": [
                {"node": "/".join(path), "state": said.value}
                for path, said in sorted(real.items())[:SHOWN_IN_AUDIT]
            ],
        },
    )
    return state


def check_changes(*, actor: User, revision: int, changes: Mapping[Path, NodeState]) -> None:
    """Refuse what `change_policy` would refuse, as far as can be told without changing anything."""
    require(actor, Permission.POLICY_MANAGE)
    _demand_current(PolicyState.objects.first() or PolicyState(), revision)
    for path, said in changes.items():
        _check(path, said)


def lock_policy(*, revision: int | None) -> PolicyState:
    """Lock the policy for a change on top of a revision; another one in between is a refusal."""
    PolicyState.objects.get_or_create(pk=1)
    state = PolicyState.objects.select_for_update().get(pk=1)
    if revision is not None:
        _demand_current(state, revision)
    return state


def renew(state: PolicyState, actor: User) -> None:
    """Count the change and give the policy a new mark, so that no process keeps the old one."""
    state.revision += 1
    state.mark = uuid.uuid4()
    state.changed_by = actor
    state.changed_at = timezone.now()
    state.save()


def checked_note(note: str) -> str:
    """Return a note as one line, or refuse it."""
    clean = " ".join(note.split())
    if len(clean) > MAX_NOTE or not clean.isprintable():
        raise BadPolicy(f"A note has at most {MAX_NOTE} printable characters.", field="note")
    return clean


def check_path(path: Path) -> None:
    """Refuse words that no node can have."""
    if len(path) > Level.ENDPOINT:
        raise BadPolicy("A node lies at most three words below the root.", field="node")
    for word, limit in zip(path[: Level.SURFACE], (40, 120), strict=False):
        if not _WORD.fullmatch(word) or len(word) > limit:
            raise BadPolicy(f"{shown(word)} names no source or surface.", field="node")
    if len(path) == Level.ENDPOINT and not _NAME.fullmatch(path[-1]):
        raise BadPolicy(f"{shown(path[-1])} names no tool.", field="node")


def _demand_current(state: PolicyState, revision: int) -> None:
    if state.revision != revision:
        raise StalePolicy(
            f"The policy is at revision {state.revision}, not {revision}. Look at it again.",
            field="revision",
        )


def _check(path: Path, said: NodeState) -> None:
    check_path(path)
    if said is NodeState.ALLOWED and level_of(path) < Level.SURFACE:
        raise BadPolicy(
            f"{node_words(path).capitalize()} can be open or off. What lies beneath is let in"
            " surface by surface.",
            field="state",
        )


def _write(path: Path, said: NodeState, *, actor: User, note: str) -> None:
    family, surface, endpoint = (*path, "", "", "")[: Level.ENDPOINT]
    at: dict[str, Any] = {"family": family, "surface": surface, "endpoint": endpoint}
    if said is NodeState.UNSET:
        PolicyNode.objects.filter(**at).delete()
        return
    PolicyNode.objects.update_or_create(
        **at, defaults={"state": said.value, "note": note, "changed_by": actor}
    )
