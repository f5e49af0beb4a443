"""How does the deployment set arguments of a tool itself, and how does it stop doing so?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import record
from apps.domain.canonical import NotCanonical, digest
from apps.domain.pinning import BadPin, Pins, check_pins
from apps.domain.policy import Path, path_of
from apps.domain.tooling import Specification
from apps.grants.errors import BadPinnedValue, NothingPinned
from apps.grants.models import PinnedArguments, PolicyState
from apps.grants.services.policy import checked_note, lock_policy, renew


@transaction.atomic
def pin_arguments(
    *,
    actor: User,
    spec: Specification,
    values: Mapping[str, Any],
    revision: int | None = None,
    note: str = "",
) -> PinnedArguments:
    """Set arguments of a tool to these values, in place of those that were set before.

    Models no longer see them; runs that were offered the tool as it was find it changed.
    """
    require(actor, Permission.POLICY_MANAGE)
    state = lock_policy(revision=revision)
    pins = _checked(spec, values)
    family, surface, endpoint = path_of(spec)
    row, _ = PinnedArguments.objects.update_or_create(
        family=family,
        surface=surface,
        endpoint=endpoint,
        defaults={"values": pins.values, "note": checked_note(note), "changed_by": actor},
    )
    renew(state, actor)
    _record(actor, "policy.arguments_pinned", state, row.path, pins)
    return row


@transaction.atomic
def unpin_arguments(*, actor: User, path: Path, revision: int | None = None) -> None:
    """Leave all arguments of a tool to whoever calls it again."""
    require(actor, Permission.POLICY_MANAGE)
    state = lock_policy(revision=revision)
    family, surface, endpoint = path
    row = PinnedArguments.objects.filter(family=family, surface=surface, endpoint=endpoint).first()
    if row is None:
        raise NothingPinned("No arguments of that tool are pinned.")
    row.delete()
    renew(state, actor)
    _record(actor, "policy.arguments_unpinned", state, path, Pins())


def _checked(spec: Specification, values: Mapping[str, Any]) -> Pins:
    if not values:
        raise BadPinnedValue("Name at least one argument.", field="values")
    try:
        pins = Pins.of(values)
        check_pins(spec, pins)
    except NotCanonical as bad:
        raise BadPinnedValue(f"The values are not JSON: {bad}", field="values") from None
    except BadPin as bad:
        field = f"values.{bad.argument}"[:60] if bad.argument else "values"
        raise BadPinnedValue(bad.message, field=field) from None
    return pins


def _record(actor: User, action: str, state: PolicyState, path: Path, pins: Pins) -> None:
    record(
        actor=actor,
        action=action,
        subject=state,
        digest=digest(pins.values) if pins else "",
        # Which ones, never what to: a value may be anybody's business.
        detail={
            "revision": state.revision,
            "tool": "/".join(path),
            "arguments": sorted(pins.names),
        },
    )
