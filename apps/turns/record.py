"""What has a run tried so far? Its settled calls, as the rules of a turn look at them."""

from __future__ import annotations

from collections.abc import Iterable

from apps.domain.attempts import Attempt
from apps.domain.tooling import CallState, Outcome
from apps.runs.bodies import call_bodies
from apps.runs.models import Call, Run
from apps.tools.catalog import resolve_tool
from apps.tools.contract import Tool

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
    return [_attempt(run, call, projections[call.pk].projection) for call in calls]


def narrowed(run: Run, tools: Iterable[Tool]) -> list[Tool]:
    """Return those of its agent's tools that a run may hold.

    A run that works for another holds at most what that one holds, and the very same of it: a tool
    of the same name that stands for something else is another tool.
    """
    ceiling = None if run.ceiling is None else frozenset(run.ceiling)
    selection = None if run.selection is None else frozenset(run.selection)
    above = None if run.parent is None else (run.parent.catalog or {}).get("tools", {})
    return [
        tool
        for tool in tools
        if (ceiling is None or tool.spec.capability.value in ceiling)
        and (selection is None or tool.spec.name in selection)
        and (above is None or above.get(tool.spec.name, {}).get("digest") == tool.spec.digest)
    ]


def _attempt(run: Run, call: Call, projection: dict[str, object]) -> Attempt:
    tool = resolve_tool(call.tool, run.agent)
    return Attempt(
        step=call.step,
        place=call.place,
        tool=call.tool,
        title=call.title,
        effect=call.effect,
        outcome=Outcome(call.outcome),
        reason=call.reason,
        arguments_digest=call.arguments_digest,
        searches=tool is not None and tool.spec.surface == DISCOVERY,
        non_substitutable=call.non_substitutable,
        artifacts=_keys(projection.get("artifacts")),
        saved=_keys(projection.get("saved")),
    )


def _keys(value: object) -> tuple[str, ...]:
    return tuple(str(key) for key in value) if isinstance(value, list) else ()
