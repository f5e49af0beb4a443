"""Does Hashline ever touch a wrong line, and what does an edit of a large file cost?

Random edits of files that stand as they were read, and of files that others have changed since, are
compared with an oracle that is told what belongs where. The same comparison is then made of engines
that were broken on purpose, and must find each of them out.

    python -m benchmarks.hashline [--quick]
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch as altered

from apps.domain.hashline import (
    Caution,
    Edited,
    LineSet,
    Memory,
    NoGrammar,
    Refused,
    Rule,
    changes,
    edit,
    engine,
    read_text,
    recovery,
    registers,
    tag_of,
)
from apps.sandbox.syntax.ask import ConfinedGrammar
from benchmarks.harness import BenchmarkFailed, Report, main, percentile, say
from benchmarks.hashline_edits import Case, draw, expected, possible
from tests.domain.hashline.reference import CASES, KNOWN_DIFFERENCES, TAGS, differs, wrong_tag

PATH = "file.txt"
LARGE_BYTES = 1_000_000
SEED = 1130
WORST_P95_MS = 50.0
_MOVED = {Caution.INSERT_MOVED_OUT}


def measure(quick: bool) -> Report:
    """Run the reference cases, the random edits, the broken engines and the large files."""
    figures: dict[str, float | int] = {}
    failing = {name: said for name, case in CASES.items() if (said := differs(case))}
    for name, said in failing.items():
        say(f"{name}: {said}")
    figures["vectors"] = len(CASES) + len(TAGS)
    figures["vectors_failed"] = len(failing) + sum(map(wrong_tag, TAGS))
    figures["vectors_named_differences"] = len(KNOWN_DIFFERENCES)
    counts = _judge_many(4_000 if quick else 100_000)
    for name in ("edits", "admitted", "admitted_stale", "refused", "corrected", "alike"):
        figures[f"random_{name}"] = counts[name]
    figures["wrong_lines"] = counts["wrong"]
    caught = _broken_engines(2_000)
    figures["broken_engines"] = len(caught)
    figures["broken_engines_caught"] = sum(caught.values())
    figures |= _large_files(30 if quick else 200)
    holds = (
        figures["vectors_failed"] == 0
        and figures["wrong_lines"] == 0
        and all(caught.values())
        and counts["admitted_stale"] * 5 > counts["edits"]
        and figures["edit_1mb_p95_ms"] <= WORST_P95_MS
    )
    return Report(figures, ok=bool(holds))


def _judge_many(samples: int) -> Counter[str]:
    chance = random.Random(SEED)
    counts: Counter[str] = Counter()
    for number in range(samples):
        _judge(draw(chance, stale=number % 2 == 1), counts)
    say(f"{samples} random edits: {dict(counts)}")
    return counts


def _judge(case: Case, counts: Counter[str]) -> None:
    read, live = case.disk(case.read), case.disk([text for _, text in case.live])
    text = read_text(read).text
    memory = Memory(registers=case.registers).remember(PATH, text, LineSet.of(case.seen))
    patch = case.patch(PATH, tag_of(text))
    result = edit(patch, files={PATH: live}, memory=memory)
    counts["edits"] += 1
    if isinstance(result, Refused):
        counts["refused"] += 1
        # A text that stands as it was read, all seen, leaves nothing to refuse.
        if (result.rule is Rule.UNSEEN_LINES) != case.unseen() or (
            not case.stale and result.rule is not Rule.UNSEEN_LINES
        ):
            counts["wrong"] += 1
        return
    counts["admitted"] += 1
    counts["admitted_stale"] += case.stale
    counts["wrong"] += case.unseen() or _wrong_lines(case, live, result, counts)


def _wrong_lines(case: Case, live: str, result: Edited, counts: Counter[str]) -> int:
    got = result.writes.get(PATH, live)
    truth = expected(case)
    if truth is not None and got == case.disk(truth):
        return 0
    if truth is not None and _MOVED & set(result.sections[0].cautions):
        counts["corrected"] += 1
        return _out_of_order(case, got, truth)
    if not case.distinct and any(got == case.disk(lines) for lines in possible(case)):
        # Equal lines stand in equal places: which is which, no text can tell.
        counts["alike"] += 1
        return 0
    wanted = truth or [text for _, text in case.live]
    found = read_text(got).text.split("\n")
    return max(1, sum(a != b for a, b in zip(wanted, found, strict=False)))


def _out_of_order(case: Case, got: str, truth: list[str]) -> int:
    """Check an edit that moved its own rows: nothing else may have moved."""
    found = read_text(got).text.split("\n")
    wanted = read_text(case.disk(truth)).text.split("\n")
    same = [row for row in found if not row.startswith("new ")] == [
        row for row in wanted if not row.startswith("new ")
    ] and sorted(found) == sorted(wanted)
    return 0 if same else 1


def _broken_engines(samples: int) -> dict[str, bool]:
    """Break the engine in one place at a time, and see whether the oracle notices."""
    caught: dict[str, bool] = {}
    for name, broken in _BROKEN.items():
        with broken():
            chance = random.Random(SEED)
            counts: Counter[str] = Counter()
            for number in range(samples):
                _judge(draw(chance, stale=number % 2 == 1), counts)
        caught[name] = counts["wrong"] > 0
        say(f"broken on purpose, {name}: {counts['wrong']} wrong")
    return caught


def _one_line_off(change: Any, rows: list[str]) -> tuple[int, int]:
    line, slot = _POSITION(change, rows)
    return (line - 1, slot) if slot == 3 else (line, slot)


def _one_line_too_many(change: Any, *rest: Any) -> Any:
    built = _BUILD(change, *rest)
    return changes.Built(built.rows[:-2] + built.rows[-1:], built.kept, built.written)


_POSITION = changes._position
_BUILD = changes.build
_BROKEN: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inserts one line too early": lambda: altered.object(changes, "_position", _one_line_off),
    "loses a line": lambda: altered("apps.domain.hashline.applying.build", _one_line_too_many),
    "takes line numbers of the old text for those of the new": lambda: altered.object(
        recovery.Drift, "move", lambda self, lines: 0
    ),
    "moves every edit of a changed file down": lambda: altered.object(
        recovery.Drift, "move", lambda self, lines: 1
    ),
    "asks for no unchanged neighbours": lambda: altered.object(
        recovery, "_stand_among_their_own", lambda *given: True
    ),
    "lets unseen lines pass": lambda: altered.object(
        engine._Call, "_check_seen", lambda self, *rest: None
    ),
    "pastes what was cut before": lambda: altered.object(
        registers.Registers, "cut", lambda self, hunk, lines: setattr(self, "_anonymous", ("?",))
    ),
}


def _large_files(samples: int) -> dict[str, float | int]:
    figures: dict[str, float | int] = {}
    # On a machine with other work to do, only the processor time speaks of us.
    cpu: defaultdict[str, list[float]] = defaultdict(list)
    grammar = ConfinedGrammar()
    try:
        for name, path, ask in (
            ("edit_1mb", PATH, NoGrammar()),
            ("edit_1mb_python", "file.py", grammar),
        ):
            times = _edits(path, samples, ask, blocks=False, stale=False, cpu=cpu[name])
            figures[f"{name}_p50_ms"] = round(percentile(times, 0.5), 2)
            figures[f"{name}_p95_ms"] = round(percentile(times, 0.95), 2)
            figures[f"{name}_cpu_p95_ms"] = round(percentile(cpu[name], 0.95), 2)
        few = max(10, samples // 10)
        stale = _edits(PATH, few, NoGrammar(), blocks=False, stale=True)
        figures["stale_1mb_p95_ms"] = round(percentile(stale, 0.95), 2)
        stale = _edits("file.py", few, grammar, blocks=False, stale=True)
        figures["stale_1mb_python_p95_ms"] = round(percentile(stale, 0.95), 2)
        block = _edits("file.py", few, grammar, blocks=True, stale=False)
        figures["block_1mb_python_p95_ms"] = round(percentile(block, 0.95), 2)
    finally:
        grammar.close()
    say(f"a file of {LARGE_BYTES} bytes: {figures}")
    return figures


def _edits(
    path: str,
    samples: int,
    grammar: Any,
    *,
    blocks: bool,
    stale: bool,
    cpu: list[float] | None = None,
) -> list[float]:
    """Edit one large file again and again; return how long each call took, in milliseconds."""
    chance = random.Random(SEED)
    content = _large_text(chance)
    memory = Memory()
    times: list[float] = []
    for number in range(samples):
        lines = content.count("\n")
        memory = memory.remember(path, content, LineSet.of([(1, lines)]))
        tag = tag_of(content)
        if stale:
            content = f"# changed {number}\n{content}"
        patch = f"[{path}#{tag}]\n" + "\n".join(_hunks(chance, lines, number, blocks=blocks))
        begun, busy = time.perf_counter(), time.process_time()
        result = edit(patch, files={path: content}, memory=memory, grammar=grammar)
        times.append(1000 * (time.perf_counter() - begun))
        if cpu is not None:
            cpu.append(1000 * (time.process_time() - busy))
        if isinstance(result, Refused):
            raise BenchmarkFailed(f"A plain edit was refused: {result.answer()[:300]}")
        memory, content = result.memory, result.writes[path]
    return times


def _hunks(chance: random.Random, lines: int, number: int, *, blocks: bool) -> list[str]:
    functions = lines // 5
    if blocks:
        first = 5 * chance.randrange(functions - 10) + 1
        body = [f"def again_{number}(value):", "    a = 1", "    b = 2", "    return a + b"]
        return [f"PUT {first}*:", *(f"+{row}" for row in body)]
    # One hunk in each third of the file: a diff of the whole is the usual trap.
    third = functions // 3
    rows: list[str] = []
    for part in range(chance.randint(1, 3)):
        # A statement of a body, so that the file stays whole; one line may be above all functions.
        at = 5 * (part * third + chance.randrange(third)) + 3 + lines % 5
        rows += [f"PUT {at}.={at}:", f"+    changed = {number}"]
    return rows


def _large_text(chance: random.Random) -> str:
    pieces: list[str] = []
    size = 0
    while size < LARGE_BYTES:
        number = len(pieces)
        piece = (
            f"def function_{number}(value):\n    first = value + {chance.randint(0, 999)}\n"
            f"    second = first * {number}\n    return [first, second, {number}]\n\n"
        )
        pieces.append(piece)
        size += len(piece)
    return "".join(pieces)


if __name__ == "__main__":
    sys.exit(main("hashline", measure))
