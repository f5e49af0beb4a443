"""What may happen in the next step of a turn? Read from rows: what is shown, bound or closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from apps.artifacts.selectors import artifacts_for, interrupted_drafts
from apps.domain.advertising import Held, Profile, advertise, describe
from apps.domain.attempts import Attempt
from apps.domain.bounds import must_explain
from apps.domain.directives import MAX_PREFERRED, read_directive
from apps.domain.roster import MAX_LISTED, RosterItem, roster
from apps.domain.tooling import Outcome, RepeatPolicy, Visibility
from apps.runs.models import Call, JournalEntry, Run
from apps.tools.contract import Tool
from apps.turns.context import Conversation
from apps.turns.record import attempts_of


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of one step."""

    step: int
    held: Sequence[Tool]
    """Everything that the run holds, shown or not."""
    shown: Sequence[str]
    bound: str
    """The tool that has to be called before anything else is said or done."""
    explains: str
    """The failure, by its title, to which this step may only answer."""
    made: Mapping[str, Sequence[dict[str, Any]]]
    """The arguments of writes that would be nothing new if they were made again, by tool."""
    held_answers: int = 0
    """Answers of this step that passed the bound tool by."""
    salvaged: str = ""
    """The longest text that this step had shown before its answer broke off."""
    squeezed: bool = False
    """Whether the model already found this step's conversation too long once."""
    continued: int = 0
    """How many answers just before this one reached their length limit."""

    def tools(self, catalog: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what the model sees of the tools that are shown."""
        entries = catalog.get("tools", {})
        profile = Profile(settings.KAIZEN_PROMPT_PROFILE)
        return [describe(entries[name], profile) for name in self.shown]


def first_policy(run: Run, held: Sequence[Tool], text: str) -> dict[str, Any]:
    """Return what a run's first step is told by the member's words, the server and the room."""
    names = [tool.spec.name for tool in held]
    unfinished = interrupted_drafts(user=run.member, room_id=run.room_id)
    rows = artifacts_for(run.member, room_id=run.room_id).order_by("-updated_at")
    listed = roster(
        [
            RosterItem(id=str(row.pk), title=row.title, kind=row.kind, version=0, unfinished=True)
            for row in unfinished
        ]
        + [
            RosterItem(id=str(row.pk), title=row.title, kind=row.kind, version=row.head)
            for row in rows[: MAX_LISTED + 1]
        ],
        held=names,
    )
    return {
        **asked_for(run.policy or {}, held, text, first=listed.preferred),
        "roster": listed.text,
    }


def asked_for(
    policy: dict[str, Any],
    held: Sequence[Tool],
    text: str,
    *,
    since: int = 1,
    first: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a run's policy after a request of its member, from this step on."""
    names = [tool.spec.name for tool in held]
    routed = policy.get("routed", "")
    directive = read_directive(
        text,
        authorized=names,
        hints={tool.spec.name: tool.spec.intent_hints for tool in held},
        routed=routed,
    )
    # Where the server sent the run goes before what the room itself would put first.
    lead = [routed] if routed in names else []
    preferred = list(dict.fromkeys([*lead, *first, *directive.preferred]))[:MAX_PREFERRED]
    return {**policy, "since": since, "bound": directive.bound, "preferred": preferred}


def plan_step(conversation: Conversation, held: Sequence[Tool]) -> Plan:
    """Return the rules of a run's next step."""
    run = conversation.run
    attempts = attempts_of(run)
    step = conversation.steps + 1
    policy = run.policy or {}
    since = policy.get("since", 1)
    bound = _still_bound(policy.get("bound", ""), since, attempts)
    frozen = (run.catalog or {}).get("tools", {})
    known = [tool for tool in held if tool.spec.name in frozen]
    shown = advertise(
        [Held(t.spec.name, t.spec.visibility is Visibility.DEFERRED) for t in known],
        preferred=policy.get("preferred", ()) if step == since else (),
        bound=bound,
    )
    failed = must_explain(attempts) if attempts and attempts[-1].step == step - 1 else None
    return Plan(
        step=step,
        held=known,
        shown=shown,
        bound=bound if bound in shown else "",
        explains=failed.title if failed is not None else "",
        made=_made(conversation, known),
        **_tries(conversation, step),
    )


def _tries(conversation: Conversation, step: int) -> dict[str, Any]:
    """Return what has become of this step so far, from the journal."""
    held = continued = 0
    salvaged, squeezed = "", False
    for entry, body in conversation.journal:
        if entry.kind == JournalEntry.Kind.ASSISTANT:
            continued = continued + 1 if body.get("cut") else 0
        elif body.get("step", body.get("squeezed")) != step:
            continue
        elif entry.kind == JournalEntry.Kind.COMPACTION:
            squeezed = True
        elif body.get("event") == "held":
            held += "tell" in body
        elif body.get("event") == "salvaged":
            salvaged = max(salvaged, body["text"], key=len)
    return {
        "held_answers": held,
        "salvaged": salvaged,
        "squeezed": squeezed,
        "continued": continued,
    }


def _still_bound(bound: str, since: int, attempts: Sequence[Attempt]) -> str:
    """Return the bound tool until it has been attempted, however that ended."""
    if any(attempt.tool == bound and attempt.step >= since for attempt in attempts):
        return ""
    return str(bound)


def _made(conversation: Conversation, held: Sequence[Tool]) -> dict[str, list[dict[str, Any]]]:
    redundant = {t.spec.name for t in held if t.spec.repeat is RepeatPolicy.REDUNDANT}
    made: dict[str, list[dict[str, Any]]] = {}
    for call, bodies in conversation.calls.values():
        if call.tool in redundant and call.outcome == Outcome.OK.value:
            made.setdefault(call.tool, []).append(bodies.arguments)
    return made


def tighter(own: int | None, bound: int) -> int:
    """Return an agent's own bound within the deployment's."""
    return bound if own is None else min(own, bound)


def wrote_before(run: Run) -> bool:
    """Tell whether earlier turns of this agent in the room changed something."""
    return (
        Call.objects.filter(
            run__room_id=run.room_id,
            run__agent_id=run.agent_id,
            effect__in=("write", "sensitive"),
            outcome=Outcome.OK.value,
        )
        .exclude(run=run)
        .exists()
    )
