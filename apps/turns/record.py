"""What has a run tried so far? Its settled calls, as the rules of a turn look at them."""

from __future__ import annotations

from apps.domain.attempts import Attempt
from apps.domain.tooling import CallState, Outcome
from apps.runs.bodies import call_bodies
from apps.runs.models import Call, Run
from apps.tools.catalog import known_specs

DISCOVERY = "discovery"
"""The surface of tools that look for tools."""


def attempts_of(run: Run) -> list[Attempt]:
    """Return the settled calls of a run, in the order of its answers."""
    calls = list(
        Call.objects.filter(run=run, state=CallState.SETTLED.value)
        .defer("arguments")
        .order_by("step", "place")
    )
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
