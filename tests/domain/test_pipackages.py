"""What may a Pi package declare, and when does what was found equal what was reviewed?"""

from __future__ import annotations

from typing import Any

import pytest

from apps.domain.commandio.results import BadResult
from apps.domain.manifests import BadManifest, Manifest, package_problems, parse_manifest
from apps.domain.pipackages import Found, FoundTool, ReviewedTool, Skill, differences
from apps.domain.piresults import rebuild
from tests.factories import pi as made


def rules(**changes: Any) -> set[tuple[str, str]]:
    """Return what is wrong with a package whose package.json has these changes."""
    manifest = parse_manifest(made.manifest())
    tree = made.tree(package=made.package_json(**changes))
    return {(one.path, one.rule) for one in package_problems(manifest, tree)}


def test_a_whole_package_is_taken() -> None:
    assert rules() == set()
    skills = parse_manifest(made.skill_manifest())
    assert package_problems(skills, made.skill_tree()) == []
    assert skills.skills == (Skill("rolling", made.BODY, "", "skills/rolling/SKILL.md"),)


@pytest.mark.parametrize(
    ("changes", "path", "rule"),
    [
        ({"name": "other"}, "package.json.name", "disagrees"),
        ({"version": "1.0.1"}, "package.json.version", "disagrees"),
        ({"keywords": None}, "package.json.keywords", "keyword"),
        ({"keywords": "pi-package"}, "package.json.keywords", "keyword"),
        ({"pi": None}, "package.json.pi", "required"),
        ({"pi": {}}, "package.json.pi", "required"),
        ({"pi": {"extensions": "./a.ts"}}, "package.json.pi.extensions", "type"),
        ({"pi": {"extensions": []}}, "package.json.pi.extensions", "type"),
        ({"pi": {"extensions": [1]}}, "package.json.pi.extensions", "type"),
        ({"pi": {"hooks": ["a"]}}, "package.json.pi.hooks", "unknown_field"),
        ({"scripts": {"prepare": "x"}}, "package.json.scripts.prepare", "lifecycle_script"),
        ({"dependencies": {"typebox": "1.0.0"}}, "package.json.dependencies.typebox",
         "host_package"),
        ({"devDependencies": {"@mariozechner/pi-ai": "1.0.0"}},
         "package.json.devDependencies.@mariozechner/pi-ai", "host_package"),
        ({"peerDependencies": {"typebox": "^1.0.0"}}, "package.json.peerDependencies.typebox",
         "host_package"),
        ({"peerDependencies": {"left-pad": "*"}}, "package.json.peerDependencies.left-pad",
         "exact_pin"),
        ({"devDependencies": {"left-pad": "^1.3.0"}}, "package.json.devDependencies.left-pad",
         "exact_pin"),
        ({"bundledDependencies": ["typebox"]}, "package.json.bundledDependencies", "unsupported"),
    ],
)  # fmt: skip
def test_what_pi_would_misread_is_refused(changes: dict[str, Any], path: str, rule: str) -> None:
    assert (path, rule) in rules(**changes)


@pytest.mark.parametrize(
    "entry",
    ["/etc/passwd", "../other", "./a/../../b", "a\\b", "a\nb", "~/x", "", "!../x", "+/x", "C:/x",
     "file:///x", "a\u202eb", "x" * 300],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["extensions", "skills", "prompts", "themes"])
def test_a_path_that_leaves_the_package_is_refused(kind: str, entry: str) -> None:
    assert (f"package.json.pi.{kind}[0]", "path") in rules(pi={kind: [entry]})


@pytest.mark.parametrize("name", ["read", "bash"])
def test_a_tool_of_pis_own_name_is_refused(name: str) -> None:
    raw = made.manifest()
    raw["tools"][0]["entry"] = f"extensions/dice.ts#{name}"
    found = package_problems(parse_manifest(raw), made.tree())
    assert [(one.path, one.rule) for one in found] == [("tools[0].entry", "reserved")]


@pytest.mark.parametrize(
    "entry", ["extensions/dice.ts#Bad Name!", "../dice.ts#x", "dice.ts", "a:b"]
)
def test_an_entry_names_an_extension_and_its_tool(entry: str) -> None:
    raw = made.manifest()
    raw["tools"][0]["entry"] = entry
    with pytest.raises(BadManifest):
        parse_manifest(raw)


@pytest.mark.parametrize(
    "skill",
    [
        {"name": "Bad Name!", "body": "x"},
        {"name": "a--b", "body": "x"},
        {"name": "ok", "body": "  "},
        {"name": "ok", "body": "x" * 70_000},
        {"name": "ok", "body": "x", "path": "../x"},
        {"name": "ok", "body": "x", "more": 1},
        {"name": "ok"},
        "words",
    ],
)
def test_a_false_skill_is_refused(skill: Any) -> None:
    with pytest.raises(BadManifest):
        parse_manifest(made.manifest(skills=[skill]))


def test_skills_are_read_of_pi_packages_only() -> None:
    raw = made.skill_manifest(format="python")
    with pytest.raises(BadManifest) as refused:
        parse_manifest(raw)
    assert {one.rule for one in refused.value.problems} == {"unsupported", "minItems"}


def test_promises_need_the_resources_that_keep_them() -> None:
    both: Manifest = parse_manifest(
        made.manifest(skills=[{"name": "rolling", "body": "x", "path": "absent.md"}])
    )
    tree = made.tree(package=made.package_json(pi={"prompts": ["./prompts"]}))
    assert {(one.path, one.rule) for one in package_problems(both, tree)} == {
        ("package.json.pi.extensions", "required"),
        ("package.json.pi.skills", "required"),
        ("skills[0].path", "entry_missing"),
    }


TOOL = ReviewedTool("roll", "dice.ts", made.SCHEMA)
SKILL = Skill("rolling", "Roll.\n", path="skills/rolling/SKILL.md")


def found(*tools: FoundTool, skills: tuple[Skill, ...] = ()) -> list[str]:
    reviewed = (SKILL,) if skills else ()
    return [one.rule for one in differences([TOOL], reviewed, Found(tools, skills))]


def test_the_same_surface_has_no_differences() -> None:
    reordered = {key: made.SCHEMA[key] for key in reversed(made.SCHEMA)}
    assert found(FoundTool("roll", "dice.ts", reordered), skills=(SKILL,)) == []


@pytest.mark.parametrize(
    ("tools", "rule"),
    [
        ((), "not_registered"),
        ((FoundTool("roll", "dice.ts", {"type": "object"}),), "schema"),
        ((FoundTool("roll", "other.ts", made.SCHEMA),), "path"),
        ((FoundTool("roll", "dice.ts", made.SCHEMA), FoundTool("more", "dice.ts", {})),
         "not_reviewed"),
        ((FoundTool("roll", "dice.ts", made.SCHEMA), FoundTool("roll", "dice.ts", made.SCHEMA)),
         "duplicate"),
    ],
)  # fmt: skip
def test_any_other_tool_is_a_difference(tools: tuple[FoundTool, ...], rule: str) -> None:
    assert rule in found(*tools)


@pytest.mark.parametrize(
    ("skill", "rule"),
    [
        (Skill("other", SKILL.body, path=SKILL.path), "not_reviewed"),
        (Skill("rolling", "Roll twice.", path=SKILL.path), "body"),
        (Skill("rolling", SKILL.body, path="skills/other/SKILL.md"), "path"),
    ],
)
def test_any_other_skill_is_a_difference(skill: Skill, rule: str) -> None:
    assert rule in found(FoundTool("roll", "dice.ts", made.SCHEMA), skills=(skill,))


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"content": "x"}, {"content": [1]}, {"content": [{"type": "text"}]},
     {"content": [{"type": "text", "text": "x" * 300_000}]},
     {"content": [], "details": "x" * 600_000}],
)  # fmt: skip
def test_what_is_no_result_is_refused(value: Any) -> None:
    with pytest.raises(BadResult):
        rebuild(value)
