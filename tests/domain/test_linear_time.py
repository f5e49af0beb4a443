"""What reads text of models, tools and members takes time that grows with it, whatever it holds.

The scale says so, in time of this thread's own: sixteen times the text may take up to four times as
long as it should, where work that grows with the square would take sixteen times as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.domain import claims, directives
from apps.domain.claims import claims_in
from apps.domain.commandio.plain import clean_output
from apps.domain.directives import read_directive
from apps.domain.hashline.bodies import _VALUE
from apps.domain.internalhosts import InternalHosts
from apps.domain.outside import unwrap
from apps.domain.redaction import redact_text
from apps.turns.rehearsal import _script

SMALL, LARGE = 16 * 1024, 256 * 1024
SLACK = 4
# Less than this is too short to compare.
LEAST = 0.0005

HOSTS = InternalHosts(
    ["db1.corp.example", "postgres", "10.0.0.5", "fd00::1", "10.1.0.0/16", "fd01::/32", ".internal"]
)
# One of each comes first: what is not there at all is found out sooner.
THERE = "db1.corp.example postgres:5432 10.0.0.5 fd00::1 10.1.0.1 fd01::1 a.internal "


def took(read: Callable[[str], Any], text: str) -> float:
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


def grows_with_the_text(read: Callable[[str], Any], unit: str) -> None:
    small, large = ((unit * (size // len(unit) + 1))[:size] for size in (SMALL, LARGE))
    base = max(min(took(read, small) for _ in range(3)), LEAST)
    most = base * (LARGE // SMALL) * SLACK
    assert any(took(read, large) < most for _ in range(3))


@pytest.mark.parametrize(
    "unit",
    [
        *("://", "a://", "a" * 21 + "://", "aa://:" + "a" * 400, "http://a:a", "@"),
        *("eyJ-", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "eyJaaaaaaaa.eyJaaaaaaaa.", "eyJ" + "a" * 3000),
        *("sk-", "-sk-", "sk-" + "a" * 19 + " ", "github_pat_", "xoxa-", "AKIA", "AIza-"),
        *("-----BEGIN A-----", "-----BEGIN ", "?a=", "?" + "a" * 64, "bearer ", "basic AAAAAAAA "),
    ],
    ids=lambda unit: unit[:14],
)
def test_redaction(unit: str) -> None:
    grows_with_the_text(redact_text, unit)


@pytest.mark.parametrize(
    "unit",
    [
        *("a.", "a-", "1.", "::", "fd00:" * 9, "::ffff:1.1.1.", "%2F", "\x1b[0m", "fe80::1%"),
        *("postgres:", "a" * 63 + "."),
    ],
)
def test_hosts_of_our_own(unit: str) -> None:
    grows_with_the_text(lambda text: HOSTS.hide(THERE + text), unit)


@pytest.mark.parametrize(
    "unit",
    [
        "\x1b",
        "\x1b]",
        "\x1bP",
        "\x1b[",
        "\x1b[0",
        "\x1b[ ",
        "\x1b\\",
        "\x9b",
        "\x9b0",
        "\x1b]a\x1b",
    ],
)
def test_what_a_program_prints(unit: str) -> None:
    grows_with_the_text(lambda text: clean_output(text.encode()), unit)


@pytest.mark.parametrize(
    "unit",
    [
        *("\n", "\n>", "\n \n", "```\n", "I have ", "I        ", "is now ", "?)", '"', "*a;", ": "),
    ],
)
def test_what_an_answer_claims(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MAX_READ", LARGE)
    grows_with_the_text(claims_in, unit)


@pytest.mark.parametrize(
    "unit",
    [
        "\n",
        "\n>",
        "```\n",
        "\u2018",
        "'a ",
        "'",
        "`",
        "must call ",
        ", ",
        ",      ",
        "a.",
        "make_note ",
    ],
)
def test_what_a_member_demands(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directives, "MAX_READ", LARGE)
    grows_with_the_text(lambda text: read_directive(text, authorized={"make_note"}), unit)


@pytest.mark.parametrize("unit", [" ", "\t", ' "', "1", "1."])
def test_a_pasted_value(unit: str) -> None:
    for before in ('"a"', '"', "1"):
        grows_with_the_text(lambda text, before=before: _VALUE.fullmatch(before + text + "x"), unit)


@pytest.mark.parametrize("unit", ["\n<<<end ", "\n", "<<<outside-data "])
def test_text_between_marks(unit: str) -> None:
    opened = "<<<outside-data 0123456789abcdef source=a\n"
    grows_with_the_text(lambda text: unwrap(opened + text), unit)


@pytest.mark.parametrize("unit", [" ", "/call ", "\n", " \n"])
def test_what_the_rehearsal_model_is_asked(unit: str) -> None:
    grows_with_the_text(lambda text: _script(f"/call note a{text}b", {"note"}), unit)
