"""Which calls may a member look at, and how much of each?"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.core.errors import NotFound
from apps.runs.models import Call, Run


class CallNotFound(NotFound):
    """No call that this member may see has that id."""


def visible_call(*, call_id: Any, user: User) -> Call:
    """Return a call of a room that the member takes part in, or refuse as if it did not exist."""
    call: Call | None = _with_run(Call.objects.visible_to(user)).filter(pk=call_id).first()
    if call is None:
        raise CallNotFound("There is no such call.")
    return call


def calls_of(run: Run) -> QuerySet[Call]:
    """Return the calls of a run that the reader may see."""
    return _with_run(Call.objects.filter(run=run))


def _with_run(calls: QuerySet[Call]) -> QuerySet[Call]:
    return calls.select_related("run__agent", "run__member", "approval")
