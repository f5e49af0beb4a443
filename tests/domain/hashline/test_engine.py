"""A call is admitted as a whole or refused as a whole, on lines that were shown."""

from __future__ import annotations

import pytest

from apps.domain.hashline import (
    MAX_FILE_BYTES,
    MAX_VERSIONS,
    Caution,
    Edited,
    FileOutcome,
    LineSet,
    Refused,
    Rule,
    Survey,
    SyntaxUnavailable,
    targets_of,
    view,
)
from apps.domain.hashline.registers import MAX_REGISTERS
from tests.domain.hashline.desk import Desk

TEN = "".join(f"row {number}\n" for number in range(1, 11))


def test_sections_stand_or_fall_together() -> None:
    desk = Desk()
    one, two = desk.put("a.txt", "a\n"), desk.put("b.txt", "b\n")
    refusal = desk.refused(f"[a.txt#{one}]\nPUT 1.=1:\n+A\n[b.txt#{two}]\nPUT 7.=7:\n+B")
    assert (refusal.rule, refusal.path, refusal.line) == (Rule.UNSEEN_LINES, "b.txt", 7)
    assert "Nothing was written." in refusal.answer()
    result = desk.call(f"[a.txt#{one}]\nPUT 1.=1:\n+A\n[b.txt#{two}]\nPUT 1.=1:\n+B")
    assert isinstance(result, Edited)
    assert desk.files == {"a.txt": "A\n", "b.txt": "B\n"}


def test_a_section_without_effect_spoils_a_call_of_several() -> None:
    desk = Desk()
    one, two = desk.put("a.txt", "a\n"), desk.put("b.txt", "b\n")
    refusal = desk.refused(f"[a.txt#{one}]\nPUT 1.=1:\n+A\n[b.txt#{two}]\nPUT 1.=1:\n+b")
    assert (refusal.rule, refusal.path) == (Rule.NO_CHANGE, "b.txt")


def test_the_same_call_may_change_nothing_only_so_often() -> None:
    desk = Desk()
    patch = f"[a.txt#{desk.put('a.txt', 'a' + chr(10))}]\nPUT 1.=1:\n+a"
    for _ in range(2):
        assert desk.done(patch).outcome is FileOutcome.NOOP
    assert desk.refused(patch).rule is Rule.NO_CHANGE_REPEATED
    assert desk.refused(patch).rule is Rule.NO_CHANGE_REPEATED
    # Any other call begins the count anew.
    desk.done(patch.replace("+a", "+b"))
    desk.done(f"[a.txt#{desk.read('a.txt')}]\nPUT 1.=1:\n+b")


class TestSeenLines:
    def test_a_refusal_that_shows_the_lines_makes_them_seen(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", TEN, seen=LineSet.of([(1, 2)]))
        patch = f"[a.txt#{tag}]\nPUT 5.=6:\n+x"
        refusal = desk.refused(patch)
        assert refusal.rule is Rule.UNSEEN_LINES
        assert refusal.shown == "5:row 5\n6:row 6"
        assert desk.done(patch).tag

    def test_too_many_lines_are_not_seen_by_asking_for_them(self) -> None:
        desk = Desk()
        text = "".join(f"row {number}\n" for number in range(100))
        tag = desk.put("a.txt", text, seen=LineSet())
        patch = f"[a.txt#{tag}]\nCUT 1.=41"
        assert desk.refused(patch).shown.count("\n") == 39
        assert desk.refused(patch).rule is Rule.UNSEEN_LINES

    def test_lines_that_do_not_exist_are_never_seen(self) -> None:
        desk = Desk()
        patch = f"[a.txt#{desk.put('a.txt', TEN)}]\nPUT 9.=12:\n+x"
        for _ in range(3):
            assert desk.refused(patch).rule is Rule.UNSEEN_LINES

    def test_they_move_with_the_text_and_grow_by_what_the_answer_shows(self) -> None:
        desk = Desk()
        text = "".join(f"row {number}\n" for number in range(1, 31))
        tag = desk.put("a.txt", text, seen=LineSet.of([(2, 2), (20, 20)]))
        section = desk.done(f"[a.txt#{tag}]\nPUT 2.=2:\n+one\n+two\n+three")
        assert section.tag is not None
        (newest, *_) = desk.memory.histories["a.txt"]
        # The three that were written, their context in the diff, and line 20, which is 22 now.
        assert set(newest.seen) == {1, 2, 3, 4, 5, 6, 7, 22}
        desk.done(f"[a.txt#{section.tag}]\nPUT 22.=22:\n+x")
        assert desk.refused(f"[a.txt#{section.tag}]\nPUT 12.=12:\n+x").rule is Rule.UNSEEN_LINES

    def test_they_are_carried_over_a_change_by_others(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", TEN, seen=LineSet.of([(5, 6)]))
        desk.files["a.txt"] = "new\n" + TEN
        section = desk.done(f"[a.txt#{tag}]\nPUT 5.=5:\n+x")
        assert section.cautions == (Caution.RECOVERED_REMAPPED,)
        (newest, *_) = desk.memory.histories["a.txt"]
        assert set(newest.seen) == {3, 4, 5, 6, 7, 8, 9}


class TestStaleTexts:
    def test_a_refusal_shows_the_live_lines_and_its_tag_can_be_used_at_once(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", TEN)
        desk.files["a.txt"] = TEN.replace("row 5", "row five")
        refusal = desk.refused(f"[a.txt#{tag}]\nPUT 5.=5:\n+x")
        assert refusal.rule is Rule.STALE
        assert refusal.shown == "3:row 3\n4:row 4\n*5:row five\n6:row 6\n7:row 7"
        live = refusal.sentence.split("It is ")[1][:4]
        desk.done(f"[a.txt#{live}]\nPUT 5.=5:\n+x")

    @pytest.mark.parametrize("operation", ["REM", "MV b.txt", "PUT 1.=1:\n+x\nMV b.txt"])
    def test_a_changed_file_is_neither_removed_nor_moved(self, operation: str) -> None:
        desk = Desk()
        tag = desk.put("a.txt", TEN)
        desk.files["a.txt"] = TEN + "more\n"
        assert desk.refused(f"[a.txt#{tag}]\n{operation}").rule is Rule.STALE

    @pytest.mark.parametrize("operation", ["REM", "MV b.txt", "PUT 1.=1:\n+x", "PUT >$:\n+x"])
    def test_a_tag_that_nobody_was_given_opens_nothing(self, operation: str) -> None:
        desk = Desk()
        tag = desk.put("a.txt", TEN)
        desk.memory = desk.memory.forget("a.txt")
        assert desk.refused(f"[a.txt#{tag}]\n{operation}").rule is Rule.UNKNOWN_TAG

    def test_the_last_four_texts_are_kept(self) -> None:
        desk = Desk()
        tags = [desk.put("a.txt", f"{TEN}{number}\n") for number in range(MAX_VERSIONS + 1)]
        assert len(desk.memory.histories["a.txt"]) == MAX_VERSIONS
        assert desk.refused(f"[a.txt#{tags[0]}]\nPUT 2.=2:\n+x").rule is Rule.UNKNOWN_TAG
        assert desk.done(f"[a.txt#{tags[1]}]\nPUT 2.=2:\n+x").cautions == (
            Caution.RECOVERED_SESSION,
        )

    def test_a_grammar_that_gives_no_answer_proves_nothing(self) -> None:
        class Mute:
            def survey(self, path: str, text: str, rows: object) -> Survey | None:
                raise SyntaxUnavailable("too slow")

        desk = Desk(grammar=Mute())
        tag = desk.put("a.py", TEN)
        assert desk.refused(f"[a.py#{tag}]\nCUT 2*").rule is Rule.BLOCK_UNRESOLVED
        desk.done(f"[a.py#{tag}]\nPUT 9.=9:\n+x")
        desk.files["a.py"] = "new\n" + desk.files["a.py"]
        assert desk.refused(f"[a.py#{tag}]\nPUT 2.=2:\n+x").rule is Rule.STALE


class TestPaths:
    def test_a_moved_file_keeps_its_tags(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "\ufeffa\r\nb\r\n")
        assert desk.done(f"[a.txt#{tag}]\nMV sub/b.txt").moved_to == "sub/b.txt"
        assert desk.files == {"sub/b.txt": "\ufeffa\r\nb\r\n"}
        desk.done(f"[sub/b.txt#{tag}]\nPUT 1.=1:\n+A")
        assert desk.files == {"sub/b.txt": "\ufeffA\r\nb\r\n"}
        assert desk.refused(f"[a.txt#{tag}]\nREM").rule is Rule.FILE_NOT_FOUND

    @pytest.mark.parametrize("destination", ["b.txt", "b.txt/c.txt"])
    def test_nothing_is_moved_onto_a_file(self, destination: str) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "a\n")
        desk.put("b.txt", "b\n")
        refusal = desk.refused(f"[a.txt#{tag}]\nMV {destination}")
        assert (refusal.rule, refusal.row) == (Rule.DESTINATION_EXISTS, 1)

    @pytest.mark.parametrize(
        "path", ["../a.txt", "/etc/passwd", "x/../a.txt", "a\\b", "a\u202eb", "x" * 300]
    )
    def test_a_path_stays_below_the_workspace(self, path: str) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "a\n")
        assert desk.refused(f"[{path}#{tag}]\nREM").rule is Rule.BAD_PATH
        assert desk.refused(f"[a.txt#{tag}]\nMV {path}").rule is Rule.BAD_PATH

    @pytest.mark.parametrize(
        "second", ["[./a.txt#{0}]\nPUT 2.=2:\n+x", "[b.txt#{1}]\nMV a.txt", "[c/a.txt#{0}]\nREM"]
    )
    def test_one_file_is_the_target_of_one_section(self, second: str) -> None:
        desk = Desk()
        tags = desk.put("a.txt", "a\nb\n"), desk.put("b.txt", "b\n")
        patch = f"[a.txt#{tags[0]}]\nPUT 1.=1:\n+x\n{second.format(*tags)}"
        assert desk.refused(patch).rule is Rule.DUPLICATE_TARGET

    def test_what_a_patch_touches_is_known_before_it_is_worked_out(self) -> None:
        targets = targets_of("[./a.txt#1a2B]\nCUT 1.=1\nMV x/b.txt\n[c.txt#0000]\nREM")
        assert [(each.path, each.tag, each.destination) for each in targets] == [
            ("a.txt", "1A2B", "x/b.txt"),
            ("c.txt", "0000", None),
        ]


class TestRegisters:
    def test_they_are_published_with_the_files_or_not_at_all(self) -> None:
        desk = Desk()
        one, two = desk.put("a.txt", "a\nb\n"), desk.put("b.txt", "b\n")
        desk.refused(f"[a.txt#{one}]\nCUT 1.=1 @x\n[b.txt#{two}]\nPUT 9.=9:\n+x")
        assert desk.memory.registers == {}
        desk.done(f"[a.txt#{one}]\nCUT 1.=1 @x")
        assert desk.memory.registers == {"x": ("a",)}

    def test_an_unknown_one_never_deletes(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "a\nb\n")
        refusal = desk.refused(f"[a.txt#{tag}]\nPUT 1.=2 @none")
        assert refusal.rule is Rule.EMPTY_NAMED_REGISTER_OVER_RANGE

    def test_there_are_only_so_many(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "x\n" * (MAX_REGISTERS + 1))
        cuts = [f"CUT {line}.={line} @r{line}" for line in range(1, MAX_REGISTERS + 2)]
        refusal = desk.refused("\n".join([f"[a.txt#{tag}]", *cuts]))
        assert refusal.rule is Rule.REGISTERS_FULL

    def test_pasting_again_and_again_does_not_fill_the_memory(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "some words\n" * 90_000)
        patch = f"[a.txt#{tag}]\nCUT 1.=80000 @x\n" + "PUT >90000 @x\n" * 4_000
        refusal = desk.refused(patch)
        assert (refusal.rule, refusal.row) == (Rule.FILE_TOO_LARGE, 4)


class TestBounds:
    def test_a_file_that_is_too_large_is_not_edited_and_does_not_become_so(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "a\n" * 10)
        desk.files["a.txt"] = "x" * (MAX_FILE_BYTES + 1)
        assert desk.refused(f"[a.txt#{tag}]\nPUT >$:\n+x").rule is Rule.FILE_TOO_LARGE
        tag = desk.put("a.txt", "x" * (MAX_FILE_BYTES - 1) + "\n")
        assert desk.refused(f"[a.txt#{tag}]\nPUT >$:\n+x").rule is Rule.FILE_TOO_LARGE
        desk.done(f"[a.txt#{tag}]\nPUT 1.=1:\n+x")

    def test_a_file_counts_in_the_bytes_that_it_has_on_disk(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "\r\n" * (MAX_FILE_BYTES // 2 - 2))
        assert desk.refused(f"[a.txt#{tag}]\nPUT <1:\n+123").rule is Rule.FILE_TOO_LARGE
        desk.done(f"[a.txt#{tag}]\nPUT <1:\n+12")

    @pytest.mark.parametrize(
        "patch",
        [
            "[a.txt#{0}]\nPUT 1.=1:\n" + "+x\n" * 100_001,
            "[a.txt#{0}]\n" + "PUT >1:\n+x\n" * 5_000,
            "".join(f"[f{number}.txt#0000]\nREM\n" for number in range(65)),
            "[a.txt#{0}]\nPUT 1.=1:\n+" + "x" * (4 * 1024 * 1024),
        ],
        ids=["rows", "hunks", "files", "bytes"],
    )
    def test_a_patch_is_bounded(self, patch: str) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "a\n")
        assert desk.refused(patch.replace("{0}", tag)).rule is Rule.PATCH_TOO_LARGE

    def test_the_diff_is_bounded_and_says_so(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", "a\n" * 1_000)
        diff = desk.done(f"[a.txt#{tag}]\nPUT 1.=1000:\n" + "+b\n" * 1_000).diff
        assert diff is not None
        assert diff.left_out > 1_000
        assert f"{diff.left_out} more rows" in diff.text
        assert len(diff.text) < 30_000

    def test_a_long_line_is_cut_in_the_diff_and_then_not_seen(self) -> None:
        desk = Desk()
        tag = desk.put("a.txt", f"a\n{'y' * 5_000}\nc\n", seen=LineSet.of([(1, 1)]))
        section = desk.done(f"[a.txt#{tag}]\nPUT 1.=1:\n+b")
        assert section.diff is not None
        assert "y" * 500 not in section.diff.text
        assert set(desk.memory.histories["a.txt"][0].seen) == {1, 3}

    def test_texts_too_different_to_compare_are_refused_and_not_searched_for_ever(self) -> None:
        desk = Desk()
        old = "".join(f"{number * 7919 % 50}\n" for number in range(100_000))
        tag = desk.put("a.txt", old)
        desk.files["a.txt"] = "".join(f"{number * 104729 % 53 % 50}\n" for number in range(100_000))
        assert desk.refused(f"[a.txt#{tag}]\nPUT 50000.=50000:\n+x").rule is Rule.STALE


def test_the_answer_gives_what_the_next_edit_needs() -> None:
    desk = Desk()
    tag = desk.put("m.py", "def a():\n    b()\n    c()\n\nd = 1\n")
    result = desk.call(f"[m.py#{tag}]\nPUT 1*:\n+def a():\n+    return 1")
    assert result.answer() == (
        f"[m.py#{desk.memory.histories['m.py'][0].tag}]\n"
        "Block 1*: lines 1-3 replaced.\n"
        "--- a/m.py\n+++ b/m.py\n@@ -1,5 +1,4 @@\n"
        " def a():\n-    b()\n-    c()\n+    return 1\n \n d = 1"
    )


def test_a_view_can_be_edited_from() -> None:
    desk = Desk()
    desk.files["a.txt"] = TEN
    shown = view("a.txt", TEN, first=4, count=2)
    assert shown.text == f"[a.txt#{shown.tag}]\n4:row 4\n5:row 5\n[showing lines 4-5 of 10]"
    desk.memory = desk.memory.remember("a.txt", TEN, shown.seen)
    assert desk.refused(f"[a.txt#{shown.tag}]\nPUT 6.=6:\n+x").rule is Rule.UNSEEN_LINES
    desk.done(f"[a.txt#{shown.tag}]\nPUT 4.=5:\n+x")


def test_a_refused_call_can_be_told_in_one_answer() -> None:
    desk = Desk()
    result = desk.call("[a.txt#0000]\nPUT 1.=1:\n+x")
    assert isinstance(result, Refused)
    assert result.answer().startswith("Refused, file_not_found (a.txt): There is no such file.")
