"""How is a patch carried out? Read this file first.

`edit` works out a whole call in memory: every section in order, each on the file as it is now, with
what is remembered about it. Either everything comes back that is to be written, or a refusal.

For each section:

    1. parse    rows become hunks (`sections`, `rows`, `bodies`, `parser`, `overlap`)
    2. locate   the file, and the retained text that the tag names (`snapshots`)
    3. resolve  blocks become line ranges (`blocks`)
    4. check    registers, and that every named line was shown (`registers`, `proofs`)
    5. recover  where the file has changed: the new line numbers, or nothing (`recovery`)
    6. apply    all hunks at once, with corrections (`applying`, `changes`, `corrections`)

Tags find a retained text and prove nothing: whether the file has changed is decided on texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from apps.domain.hashline.applying import Applied, Work, apply
from apps.domain.hashline.blocks import BlockResolution, Resolved, resolve
from apps.domain.hashline.diff import MAX_DIFF_CHARACTERS, unified
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.model import Move, Remove, Span
from apps.domain.hashline.overlap import check_resolved
from apps.domain.hashline.parser import Parsed, parse
from apps.domain.hashline.proofs import needed_lines, show_around, show_missing
from apps.domain.hashline.recovery import Drift, anchors_of, moved
from apps.domain.hashline.refusals import Caution, Refusal, Rule
from apps.domain.hashline.registers import Registers, check_sequence
from apps.domain.hashline.results import Edited, FileOutcome, Refused, SectionResult
from apps.domain.hashline.sections import Section, split
from apps.domain.hashline.snapshots import Idle, Memory
from apps.domain.hashline.syntax import Grammar, NoGrammar
from apps.domain.hashline.targets import settle_path
from apps.domain.hashline.text import FileText, check_size, read_text, rows_of, tag_of

MAX_IDLE = 2
"""So often in a row may the same call change nothing; the next one is refused."""


def edit(
    patch: str, *, files: Mapping[str, str], memory: Memory, grammar: Grammar | None = None
) -> Edited | Refused:
    """Work out a patch on files as they lie on disk; write nothing.

    `files` holds every file that the patch may touch, by its path in the workspace: what is absent
    does not exist.
    """
    call = _Call(files, memory, grammar if grammar is not None else NoGrammar())
    try:
        return call.run(patch)
    except Refusal as refusal:
        return Refused(
            rule=refusal.rule,
            sentence=refusal.sentence,
            path=refusal.path,
            row=refusal.row,
            line=refusal.line,
            shown=refusal.shown,
            memory=call.noted,
        )


class _Call:
    def __init__(self, files: Mapping[str, str], memory: Memory, grammar: Grammar) -> None:
        self._files = files
        self._grammar = grammar
        self._memory = memory
        self._registers = Registers(memory.registers)
        self._used: set[str] = set()
        self._writes: dict[str, str] = {}
        self._removals: list[str] = []
        self._room = MAX_DIFF_CHARACTERS
        self.noted = replace(memory, idle=None)
        """The memory if the call is refused: as it was, and what the refusal shows."""

    def run(self, patch: str) -> Edited:
        sections = split(patch)
        self._room = MAX_DIFF_CHARACTERS // max(1, len(sections))
        results = [result for section in sections if (result := self._section(section)) is not None]
        if not results:
            raise Refusal(Rule.NO_SECTIONS, "The patch has no hunks.")
        if len(results) > 1:
            for result in results:
                if result.outcome is FileOutcome.NOOP:
                    raise Refusal(
                        Rule.NO_CHANGE,
                        "This section changes nothing; leave it out.",
                        path=result.path,
                    )
        self._registers.check_bounds(path=results[-1].path)
        idle = self._idle(patch) if results[0].outcome is FileOutcome.NOOP else None
        memory = replace(self._memory, registers=self._registers.named, idle=idle)
        return Edited(tuple(results), self._writes, tuple(self._removals), memory)

    def _idle(self, patch: str) -> Idle:
        digest = hashlib.sha256(patch.encode()).hexdigest()
        before = self._memory.idle
        times = before.times + 1 if before is not None and before.digest == digest else 1
        if times > MAX_IDLE:
            self.noted = replace(self.noted, idle=Idle(digest, times))
            raise Refusal(
                Rule.NO_CHANGE_REPEATED,
                f"The very same call came {times} times and changes nothing: the file already reads"
                " so. Do something else.",
            )
        return Idle(digest, times)

    def _section(self, section: Section) -> SectionResult | None:
        parsed = parse(section)
        if not parsed.hunks and parsed.file_op is None:
            return None
        if section.tag is None:
            raise Refusal(
                Rule.MISSING_TAG,
                "The section header has no tag; write [PATH#TAG] as the last read showed it.",
                path=section.path,
            )
        try:
            work = self._prepare(section, section.tag, parsed)
            return self._carry_out(work)
        except Refusal as refusal:
            raise refusal.at(section.path) from None

    def _prepare(self, section: Section, tag: str, parsed: Parsed) -> Work:
        path, cautions = self._locate(settle_path(section.path), tag)
        if path in self._used:
            raise Refusal(
                Rule.DUPLICATE_TARGET, "Another section of this patch changes that file.", path=path
            )
        self._used.add(path)
        destination = self._destination(parsed, path)
        file = read_text(self._files[path], path=path)
        base = self._memory.find(path, tag)
        if base is None:
            raise self._unknown(path, tag, file, parsed)
        return Work(path, destination, parsed, file, base, (*parsed.cautions, *cautions))

    def _locate(self, path: str, tag: str) -> tuple[str, list[Caution]]:
        if path in self._files:
            return path, []
        others = self._memory.paths_like(path, tag)
        if len(others) == 1 and others[0] in self._files:
            return others[0], [Caution.PATH_RECOVERED]
        raise Refusal(
            Rule.FILE_NOT_FOUND,
            "There is no such file. Hashline changes files that exist; it makes none.",
            path=path,
        )

    def _destination(self, parsed: Parsed, path: str) -> str | None:
        if not isinstance(parsed.file_op, Move):
            return None
        row = parsed.file_op.row
        destination = settle_path(parsed.file_op.destination)
        if destination == path:
            raise Refusal(Rule.MV_SAME_PATH, "The file is already there.", path=path, row=row)
        if destination in self._used:
            raise Refusal(
                Rule.DUPLICATE_TARGET,
                "Another section of this patch changes the file at the destination.",
                path=path,
                row=row,
            )
        parts = destination.split("/")
        folders = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        taken = folders & self._writes.keys() or any(folder in self._files for folder in folders)
        if destination in self._files or taken:
            raise Refusal(
                Rule.DESTINATION_EXISTS,
                "A file is already at the destination. Remove it first, or choose another name.",
                path=path,
                row=row,
            )
        self._used.add(destination)
        return destination

    def _carry_out(self, work: Work) -> SectionResult:
        old = rows_of(work.base.text)
        resolved, unresolved = resolve(
            work.parsed.hunks, old, path=work.path, text=work.base.text, grammar=self._grammar
        )
        if any(each.block is not None for each in resolved):
            check_resolved(
                [(each.hunk, each.place) for each in resolved if isinstance(each.place, Span)],
                path=work.path,
            )
        check_sequence(work.parsed.hunks, self._registers, path=work.path)
        self._check_seen(work, resolved, old)
        if isinstance(work.parsed.file_op, Remove):
            if not work.fresh:
                raise self._stale(work, resolved, None)
            return self._remove(work)
        if work.fresh:
            applied = apply(work, resolved, old, self._registers, self._grammar)
            seen = work.base.seen
            blocks = tuple(each.block for each in resolved if each.block is not None)
            recovered: list[Caution] = []
        else:
            applied, seen, recovered = self._apply_stale(work, resolved, old)
            blocks = ()
        cautions = (*work.cautions, *unresolved, *recovered, *applied.cautions)
        return self._finish(work, applied, seen, blocks, cautions)

    def _check_seen(self, work: Work, resolved: list[Resolved], old: list[str]) -> None:
        missing = needed_lines(resolved).without(work.base.seen)
        if not missing:
            return
        shown, whole = show_missing(missing, old)
        if whole:
            self.noted = self.noted.saw(work.path, work.base, missing)
        first = missing.ranges[0][0]
        advice = (
            "They are shown below, so the same edit may be sent again."
            if whole
            else "Read them first."
        )
        raise Refusal(
            Rule.UNSEEN_LINES,
            f"The edit names {len(missing)} lines of this text that were never shown, from line"
            f" {first} on. {advice}",
            path=work.path,
            line=first,
            shown=shown,
        )

    def _apply_stale(
        self, work: Work, resolved: list[Resolved], old: list[str]
    ) -> tuple[Applied, LineSet, list[Caution]]:
        """Apply to a text that is no longer the one that was read, where that can be proved."""
        live = rows_of(work.file.text)
        drift = Drift.between(old, live)
        if isinstance(work.parsed.file_op, Move):
            raise self._stale(work, resolved, drift)
        if anchors_of(resolved):
            applied, caution = self._apply_moved(work, resolved, live, drift)
        else:
            applied = apply(work, resolved, live, self._registers, self._grammar)
            caution = Caution.HEAD_TAIL_ON_STALE
        seen = work.base.seen.moved(drift.runs)
        for kept in self._memory.histories.get(work.path, ()):
            if kept.text == work.file.text:
                seen = seen | kept.seen
        return applied, seen, [caution]

    def _apply_moved(
        self, work: Work, resolved: list[Resolved], live: list[str], drift: Drift
    ) -> tuple[Applied, Caution]:
        recovered = moved(
            resolved,
            rows_of(work.base.text),
            live,
            path=work.path,
            old_text=work.base.text,
            live_text=work.file.text,
            drift=drift,
            grammar=self._grammar,
        )
        if recovered is None:
            raise self._stale(work, resolved, drift)
        there, distance = recovered
        registers = self._registers.copy()
        try:
            applied = apply(work, there, live, registers, self._grammar)
        except Refusal:
            raise self._stale(work, resolved, drift) from None
        if applied.text == work.file.text:
            raise self._stale(work, resolved, drift)
        self._registers = registers
        if distance:
            return applied, Caution.RECOVERED_REMAPPED
        if self._memory.is_newest(work.path, work.base):
            return applied, Caution.RECOVERED_EXTERNAL
        return applied, Caution.RECOVERED_SESSION

    def _remove(self, work: Work) -> SectionResult:
        self._removals.append(work.path)
        self._memory = self._memory.forget(work.path)
        return SectionResult(work.path, work.path, FileOutcome.DELETE, cautions=work.cautions)

    def _finish(
        self,
        work: Work,
        applied: Applied,
        seen: LineSet,
        blocks: tuple[BlockResolution, ...],
        cautions: tuple[Caution, ...],
    ) -> SectionResult:
        target = work.destination or work.path
        changed = applied.text != work.file.text
        if not changed and work.destination is None:
            return SectionResult(
                work.path,
                work.path,
                FileOutcome.NOOP,
                cautions=cautions,
                blocks=blocks,
            )
        content = work.file.on_disk(applied.text)
        check_size(content, path=target)
        diff = unified(
            applied.rows,
            applied.built.rows,
            applied.built.kept,
            source=work.path,
            target=target,
            room=self._room,
        )
        seen = seen.moved(applied.built.kept) | LineSet.of(applied.built.written) | diff.shown
        if work.destination is not None:
            self._removals.append(work.path)
            self._memory = self._memory.carry(work.path, target)
        self._memory = self._memory.remember(target, applied.text, seen)
        self._writes[target] = content
        return SectionResult(
            source=work.path,
            path=target,
            outcome=FileOutcome.UPDATE,
            tag=self._memory.histories[target][0].tag,
            first_changed_line=applied.first_changed if changed else None,
            cautions=cautions,
            blocks=blocks,
            diff=diff,
        )

    def _unknown(self, path: str, tag: str, file: FileText, parsed: Parsed) -> Refusal:
        """Refuse a tag that names nothing, and show the live lines that the hunks number."""
        places = [hunk.place for hunk in parsed.hunks]
        lines = LineSet.of_lines(
            place.first if isinstance(place, Span) else getattr(place, "line", 0)
            for place in places
        )
        return self._refused_on_live(
            Rule.UNKNOWN_TAG,
            f"No text of this file is retained under {tag}.",
            path,
            file,
            lines,
        )

    def _stale(self, work: Work, resolved: list[Resolved], drift: Drift | None) -> Refusal:
        """Refuse an edit of a changed file, and show the live lines around its anchors."""
        anchors = anchors_of(resolved)
        if drift is not None:
            kept = anchors.moved(drift.runs)
            anchors = kept if kept else anchors
        return self._refused_on_live(
            Rule.STALE,
            f"The file has changed since {work.base.tag}, and it cannot be proved where this edit"
            " belongs now.",
            work.path,
            work.file,
            anchors,
        )

    def _refused_on_live(
        self, rule: Rule, sentence: str, path: str, file: FileText, lines: LineSet
    ) -> Refusal:
        rows = rows_of(file.text)
        shown, seen = show_around(lines, rows)
        self.noted = self.noted.remember(path, file.text, seen)
        return Refusal(
            rule,
            f"{sentence} It is {tag_of(file.text)} now; look at it and write the edit anew.",
            path=path,
            line=lines.ranges[0][0] if lines else None,
            shown=shown,
        )
