"""What was said and done in the room before this run, as far as its agent should know it?

Everyone in the room reads what was said. What calls returned is for the member for whom they were
made, so only this agent's own runs for this very member are remembered with their results.
"""

from __future__ import annotations

import json
from typing import Any

from apps.agents.models import Agent
from apps.domain import outside
from apps.domain.tooling import CallState
from apps.rooms.models import RoomEvent
from apps.runs.bodies import call_bodies
from apps.runs.models import Call, Run
from apps.tools.catalog import known_specs

HISTORY_MESSAGES = 30
MAX_HISTORY_TEXT = 4_000
MAX_HISTORY_RUNS = 3
MAX_HISTORY_CALLS = 12
MAX_HISTORY_RESULT = 800


def foreign_tools(agent: Agent) -> frozenset[str]:
    """Name the tools whose results are text from outside."""
    specs = known_specs(agent)
    return frozenset(name for name, spec in specs.items() if spec.outside_data)


def is_outside(tool: str, projection: dict[str, Any], foreign: frozenset[str]) -> bool:
    """Tell whether a result is text from outside; a failure of such a tool may quote it too."""
    return "outside_data" in projection or tool in foreign


def history_of(
    run: Run, *, before: int, most: int, foreign: frozenset[str]
) -> list[dict[str, Any]]:
    """Return what was said before a position, and what came of the calls behind it."""
    said = list(
        RoomEvent.objects.filter(
            room_id=run.room_id, kind="message.posted", position__lt=before
        ).order_by("-position")[:most]
    )
    said.reverse()
    records = _records(run, said, foreign)
    messages: list[dict[str, Any]] = []
    for event in said:
        author = event.data["author"]
        text = event.data["text"][:MAX_HISTORY_TEXT]
        if author.get("slug") == run.agent.slug:
            record = records.pop(event.data.get("run", ""), "")
            if record:
                messages.append({"role": "user", "content": record})
            messages.append({"role": "assistant", "content": text})
        else:
            messages.append({"role": "user", "content": f"{author['name']} said: {text}"})
    return messages


def _records(run: Run, said: list[RoomEvent], foreign: frozenset[str]) -> dict[str, str]:
    """Return the records of the agent's last runs for this member, by run."""
    idents = [
        event.data["run"]
        for event in said
        if event.data["author"].get("slug") == run.agent.slug and event.data.get("run")
    ]
    calls = list(
        Call.objects.filter(
            run__in=list(dict.fromkeys(reversed(idents)))[:MAX_HISTORY_RUNS],
            run__member=run.member_id,
            run__agent=run.agent_id,
            parent=None,
            state=CallState.SETTLED.value,
        )
        .defer("arguments")
        .order_by("run", "step", "place")
    )
    bodies = call_bodies(calls, arguments=False)
    lines: dict[str, list[str]] = {}
    for call in calls:
        line = _line(call, bodies[call.pk].projection, foreign)
        lines.setdefault(str(call.run_id), []).append(line)
    return {ident: _record(said) for ident, said in lines.items()}


def _record(lines: list[str]) -> str:
    left = len(lines) - MAX_HISTORY_CALLS
    more = [f"({left} more calls)"] if left > 0 else []
    return "\n".join(
        ["[Kaizen] Your calls before you said this:", *lines[:MAX_HISTORY_CALLS], *more]
    )


def _line(call: Call, projection: dict[str, Any], foreign: frozenset[str]) -> str:
    ended = call.outcome if not call.reason else f"{call.outcome} ({call.reason})"
    head = f"- {call.tool}: {ended}"
    text = json.dumps(
        {key: value for key, value in projection.items() if key not in ("outcome", "status")},
        ensure_ascii=False,
    )
    if len(text) > MAX_HISTORY_RESULT:
        text = f"{text[:MAX_HISTORY_RESULT]}… (cut here)"
    if is_outside(call.tool, projection, foreign):
        return f"{head}\n{outside.wrap(text, source=call.tool)}"
    return f"{head} {text}"
