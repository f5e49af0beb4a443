"""What holds for every text and every patch, and not only for those that somebody thought of."""

from __future__ import annotations

import contextlib
import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.domain.hashline import (
    Edited,
    LineSet,
    Memory,
    Refusal,
    Refused,
    Rule,
    edit,
    read_text,
    tag_of,
    targets_of,
    view,
)
from apps.domain.hashline.changes import Insertion, Replacement, build
from apps.domain.hashline.model import After, Before, Head, Tail
from apps.domain.hashline.myers import common_runs
from apps.domain.hashline.text import count_lines, rows_of
from benchmarks.hashline_edits import Case, draw, expected, possible
from tests.domain.hashline.desk import Desk

TEXT = st.text(
    st.one_of(
        st.sampled_from("ab {}\n\r\t#[]*:+-<>.=@$|\"'…\ufeff\u2028\x00\x0c"),
        st.characters(codec="utf-8"),
    ),
    max_size=200,
)
ROW = st.one_of(
    st.sampled_from(
        [
            "[a.txt#{tag}]", "[a.txt]", "[b.txt#0000]", "PUT 1.=1:", "PUT 2.=3:", "PUT >1:",
            "PUT <2:", "PUT <1:", "PUT >$:", "PUT 1*:", "PUT >1*:", "PUT 2.=2 @x", "PUT >2 @x",
            "PUT >1", "CUT 1.=1", "CUT 2.=2 @x", "CUT 1*", "REM", "MV c.txt", "MV a.txt",
            "+text", "+", "-x", "- x", "bare", "3:row", "3.=4:", "3", "…", "# note", "@@ -1 +1 @@",
            "*** End Patch", "PUT 5.=2:", "PUT 1.=999999:", "PUT 00:", "[1, 2]", "",
        ]
    ),
    TEXT,
)  # fmt: skip


@given(TEXT)
def test_a_text_comes_back_as_it_was_once_its_line_ends_agree(content: str) -> None:
    file = read_text(content)
    assert "\r" not in file.text
    written = file.on_disk(file.text)
    again = read_text(written)
    assert again.text == file.text
    assert again.on_disk(again.text) == written
    if "\r" not in content:
        assert written == content


@given(TEXT)
def test_blanks_at_line_ends_and_line_ending_style_do_not_change_a_tag(content: str) -> None:
    text = read_text(content).text
    blanks = "\n".join(f"{row} \t" for row in text.split("\n"))
    assert tag_of(blanks) == tag_of(text)
    assert tag_of(read_text(text.replace("\n", "\r\n")).text) == tag_of(text)


@given(TEXT, st.integers(1, 30), st.integers(0, 30))
def test_a_view_shows_the_lines_that_it_says_were_seen(
    content: str, first: int, count: int
) -> None:
    text = read_text(content).text
    shown = view("a.txt", text, first=first, count=count)
    rows = rows_of(text)
    for line in shown.seen:
        assert f"{line}:{rows[line - 1]}" in shown.text
    assert set(shown.seen) <= set(range(1, count_lines(rows) + 1))


@given(TEXT, st.lists(ROW, max_size=12))
@settings(max_examples=600)
@example("a\nb\n", ["[a.txt#{tag}]", "PUT 1.=1:", "[1, 2]"])
def test_whatever_is_written_is_admitted_as_a_whole_or_refused(
    content: str, rows: list[str]
) -> None:
    desk = Desk()
    desk.put("a.txt", content)
    desk.put("b.txt", "one\ntwo\n")
    tag = tag_of(read_text(content).text)
    before = dict(desk.files)
    patch = "\n".join(rows).replace("{tag}", tag)
    result = edit(patch, files=desk.files, memory=desk.memory, grammar=desk.grammar)
    assert desk.files == before
    if isinstance(result, Refused):
        assert result.rule in Rule
        assert 0 < len(result.sentence) <= 600
        assert len(result.answer()) < 50_000
    else:
        assert result.answer()
        for path, written in result.writes.items():
            # What is written is what the memory says is there.
            assert read_text(written).text == result.memory.histories[path][0].text


@given(TEXT)
def test_any_text_as_a_patch_is_read_or_refused(patch: str) -> None:
    with contextlib.suppress(Refusal):
        assert targets_of(patch)


@given(st.text(st.characters(), max_size=40))
def test_half_characters_are_refused_and_never_written(body: str) -> None:
    desk = Desk()
    tag = desk.put("a.txt", "a\n")
    result = desk.call(f"[a.txt#{tag}]\nPUT 1.=1:\n" + "\n".join(f"+{r}" for r in body.split("\n")))
    if any("\ud800" <= character <= "\udfff" for character in body):
        assert isinstance(result, Refused)
        assert result.rule is Rule.NOT_TEXT


@given(st.integers(0, 10**9))
@settings(max_examples=400)
def test_an_edit_of_a_fresh_text_changes_the_lines_that_it_names_and_no_other(seed: int) -> None:
    case = draw(random.Random(seed), stale=False)
    result = _carried_out(case)
    if case.unseen():
        assert isinstance(result, Refused)
        assert result.rule is Rule.UNSEEN_LINES
        return
    assert isinstance(result, Edited)
    # Rows that were written may land behind closing lines; no line of the file may move.
    wanted = expected(case)
    assert wanted is not None
    assert _old_lines(_lines(case, result)) == _old_lines(wanted)


@given(st.integers(0, 10**9))
@settings(max_examples=800)
def test_an_edit_of_a_changed_text_lands_on_the_text_that_it_names_or_not_at_all(
    seed: int,
) -> None:
    case = draw(random.Random(seed), stale=True)
    result = _carried_out(case)
    if isinstance(result, Refused):
        return
    assert not case.unseen()
    landings = [expected(case)] if case.distinct else [expected(case), *possible(case)]
    assert any(
        landing is not None and _old_lines(_lines(case, result)) == _old_lines(landing)
        for landing in landings
    )


@given(st.integers(0, 10**9), st.integers(1, 5))
def test_lines_put_above_move_every_edit_with_them(seed: int, above: int) -> None:
    case = draw(random.Random(seed), stale=False)
    text = read_text(case.disk(case.read)).text
    live = "".join(f"above {number}\n" for number in range(above)) + text
    memory = Memory(registers=case.registers).remember("f.txt", text, LineSet.of(case.seen))
    patch = case.patch("f.txt", tag_of(text))
    here = edit(patch, files={"f.txt": text}, memory=memory)
    there = edit(patch, files={"f.txt": live}, memory=memory)
    edges = any(not op.first for op in case.ops)
    named = {line for op in case.ops for line in op.named}
    if isinstance(here, Refused) or edges or not case.distinct or len(named) == len(case.read):
        # Without an unchanged neighbour nothing proves where a line belongs.
        return
    assert isinstance(there, Edited)
    assert there.writes["f.txt"] == live.removesuffix(text) + here.writes["f.txt"]


PLACES = st.one_of(
    st.builds(Before, st.integers(1, 6)),
    st.builds(After, st.integers(1, 6)),
    st.just(Head()),
    st.just(Tail()),
)
ROWS = st.lists(st.sampled_from(["a", "b", ""]), max_size=3).map(tuple)


@given(
    st.lists(st.sampled_from(["x", "y", ""]), min_size=6, max_size=6),
    st.lists(st.builds(Insertion, PLACES, ROWS, st.booleans()), max_size=4),
    st.lists(st.tuples(st.integers(1, 6), ROWS), max_size=3, unique_by=lambda pair: pair[0]),
)
def test_what_is_kept_is_where_the_new_text_says_it_is(
    rows: list[str], insertions: list[Insertion], replaced: list[tuple[int, tuple[str, ...]]]
) -> None:
    changes = [*insertions, *(Replacement(line, line, new, True) for line, new in replaced)]
    built = build(rows, changes)
    gone = {line for line, _ in replaced}
    kept = {}
    for here, there, length in built.kept:
        for offset in range(length):
            kept[here + offset] = there + offset
            assert rows[here + offset - 1] == built.rows[there + offset - 1]
    assert set(kept) == {line for line in range(1, 7) if line not in gone}
    added = sum(len(change.rows) for change in changes)
    assert len(built.rows) == 6 - len(gone) + added


@given(
    st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12)
)
def test_the_lines_that_two_texts_share_are_as_many_as_can_be(
    old: list[str], new: list[str]
) -> None:
    runs = common_runs(old, new)
    at = (0, 0)
    for here, there, length in runs:
        assert (here, there) > at
        assert old[here - 1 : here - 1 + length] == new[there - 1 : there - 1 + length]
        at = (here + length - 1, there + length - 1)
    assert sum(length for _, _, length in runs) == _longest_common(old, new)


LINES = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), max_size=6)


@given(LINES, LINES)
def test_sets_of_lines_are_sets(ours: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    one, other = (
        LineSet.of((first, first + length) for first, length in pairs) for pairs in (ours, others)
    )
    assert set(one | other) == set(one) | set(other)
    assert set(one.without(other)) == set(one) - set(other)
    assert len(one) == len(set(one))
    assert [line in one for line in range(1, 40)] == [line in set(one) for line in range(1, 40)]


def _carried_out(case: Case) -> Edited | Refused:

    text = read_text(case.disk(case.read)).text
    memory = Memory(registers=case.registers).remember("f.txt", text, LineSet.of(case.seen))
    live = case.disk([row for _, row in case.live])
    return edit(case.patch("f.txt", tag_of(text)), files={"f.txt": live}, memory=memory)


def _lines(case: Case, result: Edited) -> list[str]:

    live = case.disk([row for _, row in case.live])
    text = read_text(result.writes.get("f.txt", live)).text
    rows = rows_of(text)
    return [] if text == "" else rows[: count_lines(rows)]


def _old_lines(rows: list[str]) -> list[str]:
    return [row for row in rows if not row.startswith("new ")]


def _longest_common(old: list[str], new: list[str]) -> int:
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, one in enumerate(old):
        for j, other in enumerate(new):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]
