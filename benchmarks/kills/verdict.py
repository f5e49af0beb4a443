"""Was anything done twice, lost, or told wrongly? The rows, compared with what really happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.effects import READ, WRITE, Effects
from benchmarks.kills.stories import Story

# Ends of a call after which its effect may or may not be there, and that say so.
OPEN_ENDS = {READ: {"abandoned", "timeout"}, WRITE: {"ambiguous"}}

_CALLS = """
    SELECT c.id::text, c.tool, c.outcome, c.state, c.run_id::text,
        (SELECT count(*) FROM artifacts_artifactversion v WHERE v.call_id = c.id),
        (SELECT array_agg(e.data->>'outcome') FROM rooms_roomevent e
            WHERE e.kind = 'call.settled' AND e.room_id = r.room_id
            AND e.data->>'call' = c.id::text),
        (SELECT array_agg(a.outcome) FROM audit_auditrow a
            WHERE a.action IN ('call.settled', 'chat.tool.write')
            AND a.subject = 'call:' || c.id::text)
    FROM runs_call c JOIN runs_run r ON r.id = c.run_id
"""
_UNSETTLED = """
    SELECT 'call ' || id::text || ' ' || state FROM runs_call WHERE state <> 'settled'
    UNION ALL
    SELECT 'run ' || id::text || ' ' || state FROM runs_run WHERE state <> 'finished'
"""


@dataclass
class Verdict:
    """What was found, with a sentence for each finding."""

    figures: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def note(self, word: str, sentence: str) -> None:
        """Count a finding."""
        self.figures[word] += 1
        self.said.append(f"{word}: {sentence}")


def unsettled(database: str) -> list[str]:
    """Say what is still open."""
    with psycopg.connect(database, connect_timeout=5) as connection:
        return [row[0] for row in connection.execute(_UNSETTLED)]


def judge(database: str, effects: Effects, stories: Sequence[Story]) -> Verdict:
    """Compare calls, artifacts, events and audit rows with the effects outside."""
    verdict = Verdict()
    with psycopg.connect(database, connect_timeout=5) as connection:
        calls = connection.execute(_CALLS).fetchall()
        inputs = Counter(
            row[0] for row in connection.execute("SELECT text FROM runs_runinput").fetchall()
        )
        runs = {row[0] for row in connection.execute("SELECT id::text FROM runs_run").fetchall()}
    done = Counter(call for call, _ in effects.lines())
    told = {call: outcome for story in stories for call, outcome in story.outcomes.items()}
    for row in calls:
        _judge_call(verdict, row, done, told)
    known = {row[0] for row in calls}
    for call in done.keys() - known:
        verdict.note("misreported", f"call {call} had an effect and has no row")
    for mark, count in Counter(m for _, m in set(effects.lines())).items():
        # One story looks once and writes once.
        if count > 2:
            verdict.note("duplicated", f"story {mark} had {count} effects outside")
    for story in stories:
        if story.accepted and story.run and story.run not in runs:
            verdict.note("lost", f"run {story.run} of {story.mark}")
        if story.problem:
            verdict.note("problems", f"{story.mark}: {story.problem}")
        sent = sum(count for text, count in inputs.items() if story.mark in text)
        if not story.external and sent != int(story.accepted):
            word = "duplicated" if sent > 1 else "lost"
            verdict.note(word, f"the message of {story.mark} was taken {sent} times")
    return verdict


def _judge_call(
    verdict: Verdict, row: tuple[Any, ...], done: Counter[str], told: dict[str, str]
) -> None:
    call, tool, outcome, state, _, versions, events, audited = row
    if state != "settled":
        return
    name = f"{tool} {call} ({outcome})"
    count = done[call] if tool in OPEN_ENDS else versions
    if count > 1:
        verdict.note("duplicated", f"{name} was done {count} times")
    if outcome == "ok" and count == 0:
        verdict.note("lost", f"{name} was not done")
    if outcome != "ok" and count and outcome not in OPEN_ENDS.get(tool, set()):
        verdict.note("misreported", f"{name} was done")
    if events != [outcome]:
        verdict.note("misreported", f"{name} was told to the room as {events}")
    if audited != [outcome]:
        verdict.note("misreported", f"{name} was audited as {audited}")
    if call in told and told[call] != outcome:
        verdict.note("misreported", f"{name} was told to its runtime as {told[call]}")
