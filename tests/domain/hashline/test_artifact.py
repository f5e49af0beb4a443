"""An artifact is edited in ranges of exactly the version that was shown."""

from __future__ import annotations

import pytest

from apps.domain.hashline import LineSet, Refusal, Rule, edit_artifact_text, tag_of

TEXT = "".join(f"row {number}\n" for number in range(1, 51))
TAG = tag_of(TEXT)
ALL = LineSet.of([(1, 50)])


def rule_of(hunks: str, *, seen: LineSet = ALL, header: str = f"[artifact#{TAG}]") -> Rule:
    with pytest.raises(Refusal) as refused:
        edit_artifact_text(f"{header}\n{hunks}", text=TEXT, seen=seen)
    return refused.value.rule


def test_ranges_are_applied_bottom_up_on_the_displayed_numbers() -> None:
    edited = edit_artifact_text(
        f"[artifact#{TAG}]\nCUT 1.=2\nPUT 4.=4:\n+four\n+and more\nPUT 50.=50:\n+last",
        text=TEXT,
        seen=ALL,
    )
    rows = [f"row {number}" for number in range(5, 50)]
    assert edited.text == "\n".join(["row 3", "four", "and more", *rows, "last", ""])
    assert edited.tag == tag_of(edited.text)
    assert edited.diff.text.startswith("--- a/artifact\n+++ b/artifact\n@@ -1,7 +1,6 @@\n-row 1")


def test_thirty_two_hunks_are_enough() -> None:
    hunks = [f"PUT {line}.={line}:\n+x" for line in range(1, 34)]
    assert rule_of("\n".join(hunks)) is Rule.PATCH_TOO_LARGE
    edited = edit_artifact_text("\n".join([f"[artifact#{TAG}]", *hunks[:32]]), text=TEXT, seen=ALL)
    assert edited.text.startswith("x\n" * 32 + "row 33\n")


@pytest.mark.parametrize(
    ("hunks", "rule"),
    [
        ("PUT >3:\n+x", Rule.ONLY_RANGES),
        ("PUT <1:\n+x", Rule.ONLY_RANGES),
        ("PUT 3*:\n+x", Rule.ONLY_RANGES),
        ("CUT 3*", Rule.ONLY_RANGES),
        ("CUT 3.=3 @x", Rule.ONLY_RANGES),
        ("PUT 3.=3 @x", Rule.ONLY_RANGES),
        ("REM", Rule.ONLY_RANGES),
        ("MV b.txt", Rule.ONLY_RANGES),
        ("PUT 3.=3:\n+x\nPUT 3.=3:\n+y", Rule.OVERLAP),
        ("PUT 3.=5:\n+x\nCUT 5.=6", Rule.OVERLAP),
        ("PUT 3.=3:\n+row 3", Rule.NO_CHANGE),
        ("PUT 51.=51:\n+x", Rule.UNSEEN_LINES),
        ("PUT 3:\n+x\n[b#0000]\nREM", Rule.BAD_SECTION_HEADER),
    ],
)
def test_what_goes_beyond_ranges_is_refused(hunks: str, rule: Rule) -> None:
    assert rule_of(hunks) is rule


def test_only_the_version_that_was_shown_is_edited() -> None:
    assert rule_of("CUT 1.=1", header="[artifact#0000]") is Rule.STALE
    assert rule_of("CUT 1.=1", header="[artifact]") is Rule.MISSING_TAG
    assert rule_of("CUT 1.=1", header=f"[a.txt#{TAG}]") is Rule.BAD_SECTION_HEADER
    assert rule_of("CUT 40.=41", seen=LineSet.of([(1, 40)])) is Rule.UNSEEN_LINES
