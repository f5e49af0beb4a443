"""What counts as wider reach, and how are files compared?"""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.domain.manifests import parse_manifest
from apps.proposals.comparison import compare_contracts
from apps.proposals.differences import MAX_LINE, compare_trees
from tests.factories import packages as made

LIMITS = {"memMB": 64, "cpuMs": 500}


def compared(before: dict[str, Any] | None, after: dict[str, Any]) -> Any:
    old = parse_manifest(made.manifest("weather", "1.0.0", before)) if before else None
    return compare_contracts(old, parse_manifest(made.manifest("weather", "1.1.0", after)))


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        ({}, {"mutating": True}, "now changes something"),
        ({"mutating": True}, {}, "no longer asks"),
        ({}, {"effects": [{"kind": "reads", "resource": "mail"}]}, "effects widened: reads mail"),
        (
            {"limits": LIMITS},
            {"limits": {"memMB": 128, "cpuMs": 500}},
            "limit raised to 128 MB memory",
        ),
        ({"limits": LIMITS}, {}, "limit of MB memory removed"),
        (
            {"resultIsOutsideData": True},
            {"resultIsOutsideData": False},
            "result no longer marked as outside data",
        ),
    ],
)
def test_wider_reach_is_found(before: dict[str, Any], after: dict[str, Any], wider: str) -> None:
    found = compared(made.definition(**before), made.definition(**after))
    assert wider in found.tools[0].wider
    assert found.reach == "wider"
    assert found.says[0].tone == "bad"


@pytest.mark.parametrize(
    ("before", "after", "reach"),
    [
        (None, {}, "new"),
        ({}, {}, "same"),
        ({}, {"description": "Other words."}, "changed"),
        ({}, {"version": "2.0.0"}, "changed"),
        ({"limits": {"memMB": 128, "cpuMs": 500}}, {"limits": LIMITS}, "changed"),
        ({"effects": [{"kind": "reads"}]}, {}, "changed"),
        ({}, {"limits": LIMITS}, "changed"),
    ],
)
def test_what_is_not_wider_is_not_called_so(
    before: dict[str, Any] | None, after: dict[str, Any], reach: str
) -> None:
    old = None if before is None else made.definition(**before)
    assert compared(old, made.definition(**after)).reach == reach


def test_a_new_tool_is_wider_reach_and_a_removed_one_is_said() -> None:
    found = compared(made.definition("a.one"), made.definition("a.two"))
    assert [(tool.name, tool.status) for tool in found.tools] == [
        ("pkg_a_two", "new"),
        ("pkg_a_one", "removed"),
    ]
    # Nothing of the old package is left, and still it is no new package.
    assert found.reach == "wider"


def test_files_are_compared_side_by_side_and_changed_ones_come_first() -> None:
    before = {"a.py": b"one\ntwo\nthree\n", "b.py": b"same\n", "gone.py": b"x\n"}
    after = {"a.py": b"one\n2\nthree\n", "b.py": b"same\n", "new.py": b"y\nz\n"}
    found = {file.path: file for file in compare_trees(before, after)}
    assert list(found) == ["a.py", "gone.py", "new.py", "b.py"]
    changed = found["a.py"]
    assert (changed.added, changed.removed) == (1, 1)
    assert [row.kind for row in changed.rows] == ["same", "changed", "same"]
    assert (found["new.py"].added, found["gone.py"].removed) == (2, 1)
    assert found["b.py"].rows == []


def test_unchanged_lines_are_folded() -> None:
    lines = [f"line {n}" for n in range(40)]
    changed = [*lines[:20], "other", *lines[21:]]
    (file,) = compare_trees({"a": "\n".join(lines).encode()}, {"a": "\n".join(changed).encode()})
    assert [row.skipped for row in file.rows if row.kind == "gap"] == [17, 16]


def test_what_is_no_text_is_named_by_its_digest() -> None:
    (file,) = compare_trees({"a": b"\x00\x01"}, {"a": b"\xff\xfe"})
    assert file.rows == []
    assert file.note.startswith("Not text.")
    assert file.before_digest != file.after_digest


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\ufeff", "\x1b", "\u00a0", "\u2028", "\x0c"])
def test_a_character_that_hides_is_spelled_out(char: str) -> None:
    (file,) = compare_trees({}, {"a.py": f"ok{char}ok\n".encode()})
    (row,) = file.rows
    assert row.right is not None
    assert [piece.text for piece in row.right.pieces] == ["ok", f"⟨U+{ord(char):04X}⟩", "ok"]
    assert file.odd


def test_line_ends_that_differ_are_seen() -> None:
    (file,) = compare_trees({"a": b"one\n"}, {"a": b"one\r\n"})
    (row,) = file.rows
    assert row.right is not None
    assert row.right.pieces[-1].text == "␍"
    (ended,) = compare_trees({"a": b"one"}, {"a": b"one\n"})
    assert ended.note == "Only the line ends differ."


def test_huge_files_are_named_and_not_drawn() -> None:
    many = b"x\n" * 60_000
    (file,) = compare_trees({}, {"a": many})
    assert file.rows == []
    assert "5,000 lines" in file.note
    (long,) = compare_trees({}, {"a": b"y" * 100_000})
    assert long.rows[0].right is not None
    assert sum(len(piece.text) for piece in long.rows[0].right.pieces) < MAX_LINE + 60


def test_the_whole_page_has_one_budget() -> None:
    tree = {f"f{n}": b"x\n" * 800 for n in range(10)}
    drawn = [len(file.rows) for file in compare_trees({}, tree, budget=2_000)]
    assert drawn == [800, 800, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Many equal lines, many equal words, and many lines that are all compared word by word.
        ("a\n" * 999, "a\nb\n" * 499),
        ("".join("." * (380 + n % 19) + "\n" for n in range(320)), ("." * 390 + "x\n") * 320),
        ("b\n" * 4_999, "a\n" * 4_999),
    ],
)
def test_a_hostile_author_cannot_make_the_page_work_for_minutes(before: str, after: str) -> None:
    started = time.process_time()
    files = compare_trees(
        {f"f{n}": before.encode() for n in range(8)}, {f"f{n}": after.encode() for n in range(8)}
    )
    # About a second; without a bound it is a quarter of an hour for the first.
    assert time.process_time() - started < 30
    first = next((file for file in files if file.rows), None)
    if first is not None:
        shown = ["".join(p.text for p in row.right.pieces) for row in first.rows if row.right]
        assert set(shown) <= set(after.split("\n"))
        assert len(shown) > 300
    assert all(file.added and file.removed for file in files)


def reaching(*hosts: str) -> dict[str, Any]:
    return made.definition(network={"kind": "allowlist", "hosts": list(hosts)})


def test_what_a_package_reaches_is_said_first() -> None:
    says = compared(None, reaching("api.example.org", "git.example.org:8443")).says
    assert [say.lead for say in says[:2]] == [
        "Reach api.example.org.",
        "Reach git.example.org:8443.",
    ]
    assert {say.tone for say in says[:2]} == {"bad"}
    assert "network" not in says[-1].text


def test_a_new_host_is_wider_reach_and_a_known_one_is_not() -> None:
    comparison = compared(reaching("a.example.org"), reaching("a.example.org", "b.example.org"))
    assert comparison.tools[0].wider == ("reaches b.example.org",)
    assert [(say.lead, say.tone) for say in comparison.says if say.icon == "public"] == [
        ("Reach b.example.org.", "bad"),
        ("Reach a.example.org.", "info"),
    ]


def test_any_public_host_is_said_in_plain_words() -> None:
    comparison = compared(None, made.definition(network={"kind": "unrestricted"}))
    assert comparison.says[0].lead == "Reach any public host."
    assert {row.label: row.after for row in comparison.tools[0].rows}["Reaches"] == (
        "any public host"
    )


def test_a_declared_request_names_the_secret_that_it_carries() -> None:
    definition = made.definition(
        needsSpec={"secrets": {"weather-key": {}}},
        spec={
            "kind": "http",
            "method": "GET",
            "urlTemplate": "https://api.example.org/{celsius}",
            "authorization": {
                "kind": "bearer",
                "secretRef": {"envName": "KEY", "name": "weather-key"},
            },
        },
    )
    raw = made.manifest("weather", "1.1.0", definition)
    del raw["tools"][0]["entry"]
    first = compare_contracts(None, parse_manifest(raw)).says[0]
    assert first.lead == "Reach https://api.example.org."
    assert "the secret weather-key" in first.text


def test_programs_beside_the_tools_are_told_of_and_new_ones_as_such() -> None:
    files = {"builtin": "grep"}
    raw = made.manifest(
        "weather",
        "1.0.0",
        made.definition(input={"type": "object"}),
        made.definition(input={"type": "object"}),
        artifacts=[{"id": "rules", "kind": "folder", "path": "rules"}],
        human_tools={"look": {"description": "Look.", "command": "ls", "args": ["rules"]}},
    )
    raw["tools"][0]["entry"] = files
    raw["tools"][1]["entry"] = {**files, "artifact": "rules"}
    before = parse_manifest(raw)
    raw["sessions"] = {
        "live": {
            "start": {"command": "tools/run", "args": ["up"], "execution_paths": ["tools"]},
            "stop": {"command": "tools/run", "args": ["down"]},
        }
    }
    found = compare_contracts(before, parse_manifest(raw))
    # Two tools of one id belong to two artifacts, and each is compared with itself.
    assert [tool.status for tool in found.tools] == ["same", "same"]
    told = {say.lead: (say.text, say.tag) for say in found.says if say.icon == "terminal"}
    assert set(told) == {"Session live.", "For people: look.", "Artifact rules."}
    assert told["For people: look."][1] == ""
    text, tag = told["Session live."]
    assert tag == "new"
    assert "tools/run up (pinned: tools)" in text


def test_the_runtime_that_a_tool_asks_for_is_a_line_of_its_contract() -> None:
    raw = made.manifest()
    before = parse_manifest(raw)
    raw["tools"][0]["runtime"] = "office"
    (tool,) = compare_contracts(before, parse_manifest(raw)).tools
    assert tool.status == "changed"
    (row,) = [row for row in tool.rows if row.changed]
    assert (row.label, row.before, row.after) == (
        "Runs in", "bare Python", "Python with documents, tables and charts",
    )  # fmt: skip
