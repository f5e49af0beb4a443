"""`manage.py tools check`: all is read, nothing is run, and the exit code can be relied on."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.domain.manifests import parse_manifest
from apps.packages.services import publish_package
from apps.proposals.services.drafts import create_proposal
from apps.sandboxd.probe import ProbeReport, ProbeStatus
from apps.tools.checking import static
from apps.tools.management.commands.tools import Command
from apps.tools.registry import BUILTIN_TOOLS
from tests.factories.packages import definition, manifest, tree
from tests.factories.rooms import make_member
from tests.tools.checking import Write, check, rules

# --- the request ---


@pytest.mark.parametrize(
    "words",
    [
        ["builtin", "--eval", "builtin"],
        ["builtin", "--artifact", "weather", "--audience", "agent"],
        ["builtin", "--audience", "agent"],
        ["--eval", "builtin", "--artifact", "weather"],
        ["--artifact", "weather"],
        ["--audience", "agent"],
        ["--artifact", "weather", "--audience", "robot"],
        [""],
        ["--tool", "x"],
        ["--args", "{}"],
        ["builtin", "--tool", "search_about", "--args", "{}"],
        ["--execute"],
        ["builtin", "--execute"],
        ["--execute", "--tool", "x", "--args", "{}"],
        ["builtin", "--execute", "--tool", "x"],
        ["builtin", "--execute", "--tool", "x", "--args", "{"],
        ["builtin", "--execute", "--tool", "x", "--args", "[]"],
        ["builtin", "--execute", "--tool", "x", "--args", '{"a": 1, "a": 2}'],
        ["--artifact", "a", "--audience", "human", "--execute", "--tool", "x", "--args", "{}"],
        ["--repo", "/nowhere/at/all"],
        ["--state-dir", "/nowhere/at/all"],
        ["--colour"],
    ],
    ids=" ".join,
)
def test_a_request_that_makes_no_sense_ends_with_two_and_prints_no_report(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "tools", "check", *words])
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


# --- a folder ---


def test_a_sound_package_is_ready(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, lines = check(capsys, str(write()))
    assert (code, report["ready"], report["execution"]) == (0, True, None)
    (scope,) = report["scopes"]
    assert set(scope["pins"]) == {"artifact_hash", "contract_digest"}
    (tool,) = scope["tools"]
    assert (tool["tool"], tool["id"], tool["ready"]) == (
        "pkg_weather_convert",
        "weather.convert",
        True,
    )
    assert tool["specification"]["input_schema"] == definition()["input"]
    assert set(tool["pins"]) == {"weather.py"}
    assert "ready: pkg_weather_convert" in lines


@pytest.mark.parametrize(
    ("given", "files", "rule"),
    [
        (manifest(tools=[]), {}, "minItems"),
        (manifest("weather", "1.0.0", definition(input={"type": "objekt"})), {}, "meta_schema"),
        (
            manifest("weather", "1.0.0", definition(transport="native")),
            {},
            "unsupported",
        ),
        (None, {"weather.py": None}, "entry_missing"),
        (None, {"weather.py": b"def other(a): ..."}, "entry"),
        (None, {"weather.py": b"def convert(): ..."}, "entry"),
        (None, {"weather.py": b"def convert(a, b): ..."}, "entry"),
        (None, {"weather.py": b"def convert(a, *, b): ..."}, "entry"),
        (None, {"weather.py": b"async def convert(a): ..."}, "entry"),
        (None, {"weather.py": b"def convert(a:"}, "syntax"),
        (None, {"weather.py": b"\x00"}, "syntax"),
        (None, {"weather.py": b"(" * 10_000}, "syntax"),
        (None, {"package.json": b'{"name": "other", "version": "1.0.0"}'}, "disagrees"),
        (
            None,
            {
                "package.json": b'{"name": "weather", "version": "1.0.0",'
                b' "devDependencies": {"a": "^1.0.0"}}'
            },
            "pin",
        ),
        (
            None,
            {
                "package.json": b'{"name": "weather", "version": "1.0.0",'
                b' "dependencies": {"a": "1.0.0"}}'
            },
            "dependency",
        ),
        (None, {"more.py": b"x" * 200_000}, "file"),
        (None, {f"{n}.py": b"" for n in range(70)}, "file_count"),
        (None, {"lib.so": b""}, "compiled"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_named_and_ends_with_one(
    given: Any,
    files: dict[str, bytes | None],
    rule: str,
    write: Write,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = {path: text for path, text in (tree() | files).items() if text is not None}
    code, report, _ = check(capsys, str(write(given=given, files=whole)))
    assert (code, report["ready"]) == (1, False)
    assert rule in rules(report)


@pytest.mark.parametrize(
    "source",
    [
        b"def convert(a, b=1): ...",
        b"def convert(*given): ...",
        b"convert = lambda a: a",
        b"from inner import convert",
        b"import inner as convert",
        b"from inner import *",
        b"if True:\n    def convert(a): ...",
        b"class convert:\n    def __init__(self, a): ...",
    ],
)
def test_what_only_running_would_tell_is_not_called_wrong(
    source: bytes, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(capsys, str(write(files=tree() | {"weather.py": source})))[0] == 0


def test_nothing_of_a_package_is_run_by_checking_it(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    source = f"open({str(trace)!r}, 'w')\ndef convert(a): ...".encode()
    place = write(files=tree() | {"weather.py": source, "test_weather.py": source})
    before = sorted(place.rglob("*"))
    assert check(capsys, str(place))[0] == 0
    assert not trace.exists()
    assert sorted(place.rglob("*")) == before


def test_a_link_out_of_the_folder_is_not_followed(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere.py").write_text("def convert(a): ...")
    place = write()
    (place / "weather.py").unlink()
    (place / "weather.py").symlink_to(tmp_path / "elsewhere.py")
    code, report, _ = check(capsys, str(place))
    assert code == 1
    assert rules(report) >= {"file", "entry_missing"}


@pytest.mark.parametrize("words", [["there"], ["dir:there"], ["proposal"], ["package:"]])
def test_a_selector_that_names_nothing_ends_with_one(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, _ = check(capsys, *words, "--repo", str(tmp_path))
    assert (code, rules(report)) == (1, {"not_found"})


def test_every_manifest_below_a_repository_is_checked(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a/weather")
    write("b/broken", given={"name": "broken"})
    code, report, _ = check(capsys, "--repo", str(tmp_path))
    assert code == 1
    assert [(scope["selector"], scope["ready"]) for scope in report["scopes"]] == [
        ("dir:a/weather", True),
        ("dir:b/broken", False),
    ]
    assert check(capsys, "--repo", str(tmp_path), "a/weather", "--json")[::2] == (0, "")
    named = ["--repo", str(tmp_path), "--artifact", "weather", "--audience", "agent"]
    assert check(capsys, *named)[0] == 0


def test_tools_for_people_are_refused_as_unsupported(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write()
    named = ["--repo", str(tmp_path), "--artifact", "weather", "--audience", "human"]
    code, report, _ = check(capsys, *named)
    assert (code, rules(report)) == (1, {"unsupported"})
    code, report, _ = check(capsys, *named, "--execute", "--tool", "inspect")
    assert (code, report["execution"]["outcome"]) == (1, "unsupported")


def test_declarations_of_another_kind_are_refused_as_unsupported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.artf").write_text("[views.agent_sessions.app]")
    code, report, _ = check(capsys, str(tmp_path))
    assert (code, rules(report)) == (1, {"unsupported"})


# --- this deployment ---


NETWORK = {"kind": "allowlist", "hosts": ["api.kaizen.example"]}
READY = ProbeReport(ProbeStatus.READY, "", runtimes=(("node", "1"), ("office", "1")))


def answering(monkeypatch: pytest.MonkeyPatch, report: ProbeReport) -> None:
    """Let the sandbox of this deployment answer so, whatever runs on this machine."""
    monkeypatch.setattr(static, "available", lambda **_: report)


def test_our_own_tools_are_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, READY)
    code, report, _ = check(capsys, "builtin")
    assert code == 0
    assert all(tool["ready"] for tool in report["scopes"][0]["tools"])
    assert check(capsys, "--eval", "builtin")[0] == 0


def test_tools_of_our_own_that_need_a_sandbox_are_not_ready_without_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    answering(monkeypatch, ProbeReport(ProbeStatus.NOT_RUNNING, "Nobody listens."))
    code, report, lines = check(capsys, "builtin")
    assert code == 1
    found = {
        tool["tool"]: [problem["rule"] for problem in tool["problems"]]
        for tool in report["scopes"][0]["tools"]
        if not tool["ready"]
    }
    needing = [name for name, tool in BUILTIN_TOOLS.items() if tool.needs_sandbox]
    assert found == {name: ["sandbox"] for name in needing}
    assert "Nobody listens. [sandbox]" in lines
    # What is switched off on purpose lacks nothing.
    settings.KAIZEN_FEATURES_OFF = frozenset({"code"})
    assert check(capsys, "builtin")[0] == 0


@pytest.mark.parametrize(
    ("more", "networks", "rule"),
    [
        ({"runtime": "office"}, {"none"}, None),
        ({"runtime": "office"}, {"none"}, "runtime"),
        ({"network": NETWORK}, {"none", "allowlist"}, None),
        ({"network": NETWORK}, {"none"}, "network"),
    ],
)
def test_an_admitted_tool_is_ready_where_its_runtime_and_its_network_are_there(
    db: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: Any,
    more: dict[str, Any],
    networks: set[str],
    rule: str | None,
) -> None:
    raw = manifest()
    if network := more.get("network"):
        raw["tools"][0]["definition"]["network"] = network
    else:
        raw["tools"][0] |= more
    keeper = make_member("keeper")
    publish_package(
        manifest=parse_manifest(raw),
        files=tree(),
        author=keeper,
        admitted_by=keeper,
    )
    settings.KAIZEN_PACKAGE_NETWORKS = frozenset(networks)
    answering(monkeypatch, replace(READY, runtimes=()) if rule == "runtime" else READY)
    code, report, _ = check(capsys, "package:weather")
    assert (code, rules(report)) == ((0, set()) if rule is None else (1, {rule}))


def test_a_tool_of_our_own_is_not_executed_outside_a_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["builtin", "--execute", "--tool", "search_about", "--args", '{"query": "a"}']
    code, report, _ = check(capsys, *words)
    assert (code, report["execution"]["outcome"]) == (1, "unsupported")


@pytest.fixture
def deployed(db: None) -> str:
    """The id of a draft; the same package is admitted in an earlier version."""
    author, keeper = make_member("ada"), make_member("keeper")
    publish_package(
        manifest=parse_manifest(manifest()), files=tree(), author=author, admitted_by=keeper
    )
    draft = create_proposal(
        author=author, manifest=manifest(version="1.1.0"), files=tree(version="1.1.0"), note=""
    )
    return str(draft.pk)


def test_a_package_and_a_proposal_are_checked_where_they_are_stored(
    deployed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["package:weather"], ["package:weather@1.0.0"]):
        _, report, _ = check(capsys, *words)
        assert rules(report) <= {"sandbox"}
        assert report["scopes"][0]["selector"] == "package:weather@1.0.0"
    code, report, _ = check(capsys, f"proposal:{deployed}")
    assert code == 1
    assert rules(report) - {"sandbox"} == {"receipt"}
    named = ["--artifact", "weather@1.0.0", "--audience", "agent"]
    assert check(capsys, *named)[1]["scopes"][0]["selector"] == "package:weather@1.0.0"
    assert rules(check(capsys, f"proposal:{uuid.uuid4()}")[1]) == {"not_found"}
    assert rules(check(capsys, "package:weather@9.9.9")[1]) == {"not_found"}


def test_without_a_selector_everything_that_is_active_is_checked(
    deployed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report, _ = check(capsys)
    assert [scope["selector"] for scope in report["scopes"]] == [
        "builtin",
        "package:weather@1.0.0",
    ]


def test_files_that_are_not_those_that_were_admitted_are_found(
    deployed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from apps.packages.models import PackageFile

    PackageFile.objects.filter(path="test_weather.py").delete()
    code, report, _ = check(capsys, "package:weather")
    assert code == 1
    assert "pin" in rules(report)


def test_a_check_leaves_nothing_behind(deployed: str, capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> dict[str, int]:
        return {model._meta.label: model._default_manager.count() for model in apps.get_models()}

    before = rows()
    with CaptureQueriesContext(connection) as asked:
        for words in ([], ["package:weather"], [f"proposal:{deployed}"]):
            check(capsys, *words)
    assert {query["sql"].split()[0] for query in asked} == {"SELECT"}
    assert rows() == before
