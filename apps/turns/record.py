"""What has a run tried so far? Its settled calls, as the rules of a turn look at them."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from apps.domain.attempts import Attempt
from apps.domain.tooling import CallState, Outcome
from apps.runs.bodies import call_bodies
from apps.runs.models import Call, Run
from apps.tools.builtin.agents import MAX_DEPTH
from apps.tools.catalog import known_specs

DISCOVERY = "discovery"
"""The surface of tools that look for tools."""


def attempts_of(run: Run) -> list[Attempt]:
    """Return the settled calls of a run, in the order of its answers."""
    calls = Call.objects.filter(run=run).order_by("step", "place")
    return _attempts(run, calls)


def attempts_for(run: Run) -> list[Attempt]:
    """Return the settled calls of a run and of all that worked for it, in the order of time."""
    line = Q(run=run)
    above = "run"
    for _ in range(MAX_DEPTH):
        above += "__parent"
        line |= Q(**{above: run})
    return _attempts(run, Call.objects.filter(line).order_by("created_at"))


def _attempts(run: Run, rows: QuerySet[Call]) -> list[Attempt]:
    calls = list(rows.filter(state=CallState.SETTLED.value).defer("arguments"))
    projections = call_bodies(calls, arguments=False)
    specs = known_specs(run.agent) if calls else {}
    searching = {name for name, spec in specs.items() if spec.surface == DISCOVERY}
    return [_attempt(call, projections[call.pk].projection, searching) for call in calls]


def _attempt(call: Call, projection: dict[str, object], searching: set[str]) -> Attempt:
    return Attempt(
        step=call.step,
        place=call.place,
        tool=call.tool,
        title=call.title,
        effect=call.effect,
        outcome=Outcome(call.outcome),
        reason=call.reason,
        arguments_digest=call.arguments_digest,
        searches=call.tool in searching,
        non_substitutable=call.non_substitutable,
        artifacts=_keys(projection.get("artifacts")),
        saved=_keys(projection.get("saved")),
    )


def _keys(value: object) -> tuple[str, ...]:
    return tuple(str(key) for key in value) if isinstance(value, list) else ()
