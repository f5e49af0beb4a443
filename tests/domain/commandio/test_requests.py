"""A program is told of its call exactly, and given arguments that no shell ever reads."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.commandio.plain import (
    MARKER,
    MAX_TEXT_BYTES,
    BadArguments,
    clean_output,
    plain_argv,
)
from apps.domain.commandio.references import check_reference, filled_reference
from apps.domain.commandio.requests import Places, Request
from apps.domain.commandio.templates import BadTemplate, Slot, described, fill, parse_template
from apps.domain.scoping import Artifact, ArtifactKind

PLACES = Places("/package", "/workspace/output", "/tmp/call")
APP = Artifact(
    "app",
    ArtifactKind.FOLDER,
    "",
    (
        ("rules", Artifact("spec", ArtifactKind.FOLDER, "docs/rules")),
        ("about", Artifact("readme", ArtifactKind.FILE, "README.md")),
    ),
)


def test_a_request_has_exactly_these_words() -> None:
    request = Request(APP, PLACES, ("tools",), {"section": "summary"})
    assert json.loads(request.encoded()) == {
        "version": 1,
        "context": {
            "artifactId": "app",
            "artifactPath": "/package",
            "outputDir": "/workspace/output",
            "tmpDir": "/tmp/call",
            "scope": {
                "app": {
                    "path": "/package",
                    "kind": "folder",
                    "children": {
                        "rules": {
                            "path": "/package/docs/rules",
                            "kind": "folder",
                            "children": {},
                        },
                        "about": {"path": "/package/README.md", "kind": "file", "children": {}},
                    },
                }
            },
            "executionPaths": {"tools": "/package/tools"},
        },
        "args": {"section": "summary"},
    }
    assert request.encoded().endswith(b"}\n")


def test_nothing_is_said_of_execution_paths_where_there_are_none() -> None:
    assert "executionPaths" not in Request(APP, PLACES).as_dict()["context"]


def test_a_file_s_path_names_the_file() -> None:
    context = Request(APP.children[1][1], PLACES).as_dict()["context"]
    assert context["artifactPath"] == "/package/README.md"
    assert context["scope"]["readme"]["kind"] == "file"


# --- templates ---


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("{a}", (Slot("a"),)),
        ("--q={a}!", ("--q=", Slot("a"), "!")),
        ("{{a}}", ("{a}",)),
        ("{{{a}}}", ("{", Slot("a"), "}")),
        ("{a}{b}", (Slot("a"), Slot("b"))),
        ("}}{{", ("}{",)),
    ],
)
def test_a_text_is_read_from_left_to_right(text: str, parts: tuple[Any, ...]) -> None:
    assert parse_template(text) == parts


@pytest.mark.parametrize("text", ["{", "}", "{}", "{a", "a}", "{a{b}}", "{{}", "{{{}}}"])
def test_a_lone_brace_is_refused(text: str) -> None:
    with pytest.raises(BadTemplate):
        parse_template(text)


@given(st.text(st.sampled_from("ab{} $"), max_size=20))
def test_any_text_can_be_written_literally(text: str) -> None:
    written = text.replace("{", "{{").replace("}", "}}")
    assert fill(parse_template(written), {}) == text


def test_a_description_holds_the_name_of_its_artifact_only() -> None:
    assert described("Read {artifactName} {{x}}.", "app") == "Read app {x}."
    with pytest.raises(BadTemplate):
        described("Read {query}.", "app")


# --- places in arguments ---


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{spec}", "/package/docs/rules"),
        ("--at={spec}/a/b.md", "--at=/package/docs/rules/a/b.md"),
        ("{readme}", "/package/README.md"),
        ("{app}", "/package"),
    ],
)
def test_an_argument_may_name_an_artifact_of_the_scope(text: str, filled: str) -> None:
    check_reference(text, APP)
    assert filled_reference(text, PLACES.artifacts(APP)) == filled


@pytest.mark.parametrize(
    "text",
    ["{other}", "{spec}/../x", "{spec}/./x", "{spec}//x", "{spec}/", "{spec}x", "{readme}/x"],
)
def test_an_argument_names_nothing_else(text: str) -> None:
    with pytest.raises(BadTemplate):
        check_reference(text, APP)


# --- plain programs ---


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("$(id); `x` 'y' \"z\" {q} {{", "$(id); `x` 'y' \"z\" {q} {{"),
        ("", ""),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ([1, "a b"], '[1,"a b"]'),
        ({"a": "é"}, '{"a":"é"}'),
    ],
)
def test_a_value_becomes_one_argument(value: Any, word: str) -> None:
    assert plain_argv(["{q}", "--q={q}", "{{q}}"], {"q": value}) == (word, f"--q={word}", "{q}")


def test_what_is_missing_or_holds_nul_fails_before_anything_starts() -> None:
    for arguments in ({}, {"other": 1}, {"q": "a\0b"}):
        with pytest.raises(BadArguments):
            plain_argv(["{q}"], arguments)
    # Written as JSON the character is an escape, which any program can be given.
    assert plain_argv(["{q}"], {"q": ["\0"]}) == ('["\\u0000"]',)


values = st.text(max_size=12).filter(lambda text: "\0" not in text)


@given(st.lists(values, max_size=4), values)
@settings(max_examples=200)
def test_the_number_and_the_words_of_arguments_are_those_declared(
    literals: list[str], value: str
) -> None:
    args = [text.replace("{", "{{").replace("}", "}}") for text in literals]
    assert plain_argv([*args, "x={v}", "{v}{v}"], {"v": value}) == (
        *literals,
        f"x={value}",
        value + value,
    )


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        (b"a\r\nb\rc", "a\nb\nc"),
        (b"\x00\x07\x08\x7fx\ty", "x\ty"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("\x9b31mé".encode(), "é"),
        (b"\x1b", ""),
        (b"\x1b[", ""),
        (b"", ""),
    ],
)
def test_what_is_printed_is_cleaned(printed: bytes, text: str) -> None:
    assert clean_output(printed) == text


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_nothing_that_a_terminal_obeys_is_left(printed: bytes) -> None:
    text = clean_output(printed)
    assert all(one in "\n\t" or not ord(one) < 32 for one in text)
    assert not set(text) & {chr(code) for code in range(0x7F, 0xA0)}


def test_a_long_output_is_cut_between_characters_and_says_so() -> None:
    exact = b"a" * MAX_TEXT_BYTES
    assert clean_output(exact) == exact.decode()
    cut = clean_output("é".encode() * MAX_TEXT_BYTES)
    assert cut.endswith(MARKER)
    assert len(cut.encode()) <= MAX_TEXT_BYTES
    assert set(cut.removesuffix(MARKER)) == {"é"}
    assert clean_output(b"a", complete=False) == f"a{MARKER}"
