"""`manage.py tools check --execute`: one exact call, in the sandbox or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.domain.tooling import MAX_TIMEOUT_S
from apps.sandbox.client import Limits
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.tools.checking.static import ToolSheet
from apps.tools.checking.trial import outcome_of
from apps.tools.packaged import limits_of, node_limits_of
from apps.tools.registry import BUILTIN_TOOLS
from tests.factories.packages import definition, manifest, tree
from tests.sandboxd.daemon import Daemon
from tests.tools.checking import Write, check, rules


def exact(place: Path, arguments: str, *more: str) -> list[str]:
    words = [str(place), "--execute", "--tool", "pkg_weather_convert", "--args", arguments]
    return [*words, *more]


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["--tool", "weather.convert", "--args", "{}"], "not_found"),
        (["--tool", "pkg_weather", "--args", "{}"], "not_found"),
        (["--tool", "pkg_weather_convert", "--args", "{}"], "arguments"),
        (["--tool", "pkg_weather_convert", "--args", '{"celsius": "SECRET"}'], "arguments"),
        (
            ["--tool", "pkg_weather_convert", "--args", json.dumps({"celsius": "x" * 70_000})],
            "arguments",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_call_that_is_not_exact_is_refused_before_anything_runs(
    words: list[str], outcome: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, _ = check(capsys, str(write()), "--execute", *words)
    assert (code, report["execution"]["outcome"]) == (1, outcome)
    assert "SECRET" not in json.dumps(report)


def test_a_declared_request_is_checked_and_never_sent(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"kind": "http", "method": "GET", "urlTemplate": "https://x.test/{celsius}"}
    given = manifest("weather", "1.0.0", definition(spec=request))
    del given["tools"][0]["entry"]
    package = {"package.json": b'{"name": "weather", "version": "1.0.0"}'}
    code, report, _ = check(capsys, *exact(write(given=given, files=package), '{"celsius": 1}'))
    assert rules(report) == set()
    assert (code, report["execution"]["outcome"]) == (1, "unsupported")


def test_what_is_not_ready_is_not_executed(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    place = write(files=tree() | {"weather.py": b"def convert(): ..."})
    code, report, _ = check(capsys, *exact(place, '{"celsius": 1}'))
    assert (code, report["execution"]["outcome"]) == (1, "not_ready")


def test_without_a_sandbox_nothing_is_executed(
    write: Write, capsys: pytest.CaptureFixture[str], settings: Any, tmp_path: Path
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody.sock")
    code, report, _ = check(capsys, *exact(write(), '{"celsius": 1}'))
    assert (code, report["execution"]["outcome"]) == (1, "unavailable")


@pytest.mark.parametrize("kind", [kind for kind in ReplyKind if kind is not ReplyKind.VALUE])
def test_every_other_end_than_a_value_fails_also_one_that_could_not_be_cleaned_up(
    kind: ReplyKind,
) -> None:
    sheet = ToolSheet(BUILTIN_TOOLS["search_about"].spec, tool_id="x")
    said = outcome_of(sheet, ToolReply(kind, message="Why."))
    assert (said["ok"], said["outcome"], said["message"]) == (False, kind.value, "Why.")


@pytest.fixture
def state(daemon: Daemon, tmp_path: Path) -> str:
    """A state directory whose supervisor is the one of these tests."""
    place = tmp_path / "state"
    place.mkdir()
    (place / "sandboxd.sock").symlink_to(daemon.socket)
    return str(place)


@pytest.mark.sandbox
def test_one_exact_call_runs_in_the_sandbox(
    write: Write, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = exact(write(), '{"celsius": 100}', "--state-dir", state)
    code, report, lines = check(capsys, *words)
    assert (code, report["execution"]["value"]) == (0, {"fahrenheit": 212})
    assert "executed: value" in lines


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        (b"def convert(a):\n    raise ValueError('no')", "raised"),
        (b"def convert(a):\n    return 'no object'", "output"),
        (b"def convert(a):\n    import os\n    os._exit(3)", "crashed"),
    ],
)
def test_a_call_that_fails_ends_with_one(
    source: bytes, outcome: str, write: Write, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = write(files=tree() | {"weather.py": source})
    code, report, _ = check(capsys, *exact(place, '{"celsius": 1}', "--state-dir", state))
    assert (code, report["execution"]["outcome"]) == (1, outcome)


@pytest.mark.parametrize("asked", [None, {"memMB": 300, "cpuMs": 90_000}])
@pytest.mark.parametrize("limits", [limits_of, node_limits_of])
def test_nothing_but_the_runners_deadline_bounds_the_time_of_a_call(
    limits: Callable[[dict[str, int] | None], Limits], asked: dict[str, int] | None
) -> None:
    given = limits(asked)
    assert given.wall_ms == MAX_TIMEOUT_S * 1000
    if asked is not None:
        assert (given.memory_mb, given.cpu_ms) == (300, 90_000)


@pytest.mark.sandbox
def test_no_call_of_a_package_takes_longer_than_its_runner_allows(
    write: Write, state: str, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    settings.PKG_RUNNER_TIMEOUT_SECONDS = 1
    source = b"import time\n\n\ndef convert(a):\n    time.sleep(600)\n"
    place = write(files=tree() | {"weather.py": source})
    code, report, _ = check(capsys, *exact(place, '{"celsius": 1}', "--state-dir", state))
    assert (code, report["execution"]["outcome"]) == (1, "timeout")
