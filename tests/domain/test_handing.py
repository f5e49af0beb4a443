"""Code of a package asks that its call wait; a declared request of the package carries the link."""

from __future__ import annotations

from typing import Any

import pytest

from apps.domain.entries import (
    CommandEntry,
    Entry,
    NodeEntry,
    PiEntry,
    Program,
    Protocol,
    PythonEntry,
)
from apps.domain.handing import BadPause, asked_pause
from apps.domain.manifests import BadManifest, parse_manifest
from apps.domain.tooling import Pauses

OBJECT = {"type": "object"}
PYTHON = PythonEntry("desk", "ask")


def pausing(**changes: Any) -> dict[str, Any]:
    return {
        "id": "desk.ask",
        "description": "Ask somebody to sign.",
        "version": "1.0.0",
        "input": OBJECT,
        "output": OBJECT,
        "pauses": True,
        **changes,
    }


def carrier(**changes: Any) -> dict[str, Any]:
    return {
        "id": "desk.send",
        "description": "Send a request to the desk.",
        "version": "1.0.0",
        "input": OBJECT,
        "output": {},
        "spec": {
            "kind": "http",
            "method": "POST",
            "urlTemplate": "https://desk.example/ask",
            "requestBody": {"kind": "json-input"},
        },
        **changes,
    }


def manifest(
    ask: dict[str, Any] | None = None,
    send: dict[str, Any] | None = None,
    **beside: Any,
) -> dict[str, Any]:
    first = {"definition": ask or pausing(), "entry": "desk:ask", "hands_link_to": "desk.send"}
    first |= beside
    return {
        "name": "desk",
        "version": "1.0.0",
        "ref": "desk@1.0.0",
        "format": "python",
        "tools": [
            {key: value for key, value in first.items() if value is not None},
            {"definition": send or carrier()},
        ],
    }


def test_a_tool_that_pauses_is_judged_as_one_that_waits_and_reaches_its_carriers_host() -> None:
    tool = parse_manifest(manifest()).tools[0]
    spec = tool.specification()
    assert spec.pauses == Pauses(default_s=24 * 3600, most_s=24 * 24 * 3600)
    assert (spec.later, spec.outside_data, spec.parallel_safe) == (True, True, False)
    assert spec.reaches == ("https://desk.example",)
    # Its own code still has no network: what carries the link is ours.
    assert not tool.network
    assert tool.link_goes_to == "POST https://desk.example/ask, by pkg_desk_send"


def test_a_read_that_pauses_never_runs_beside_others() -> None:
    reads = manifest(
        pausing(mutating=False),
        carrier(
            mutating=False,
            spec={"kind": "http", "method": "GET", "urlTemplate": "https://desk.example/a?l={l}"},
            input={
                "type": "object",
                "properties": {"l": {"type": "string"}},
                "required": ["l"],
            },
        ),
    )
    spec = parse_manifest(reads).tools[0].specification()
    assert (spec.effect.value, spec.parallel_safe) == ("read", False)


def test_its_time_covers_the_code_and_what_carries_the_link() -> None:
    spec = {**carrier()["spec"], "timeoutMs": 20_000}
    program = {"protocol": "json", "command": "tools/ask", "args": [], "timeout_ms": 5_000}
    raw = manifest(send=carrier(spec=spec))
    # A function has all the time that a call can have, so nothing can come on top of it.
    assert parse_manifest(raw).tools[0].specification().timeout_s == 240
    raw["tools"][0]["entry"] = program
    assert parse_manifest(raw).tools[0].specification().timeout_s == 5 + 20


CONNECTED = carrier(
    needsSpec={"connections": {"mine": {"app": "desk", "permissions": ["a"], "as": "person"}}},
    spec={
        **carrier()["spec"],
        "authorization": {"kind": "connection", "connection": "mine"},
    },
)
PLAIN = {"protocol": "plain", "command": "python", "args": []}


@pytest.mark.parametrize(
    ("raw", "field", "rule"),
    [
        (manifest(hands_link_to=None), "tools[0].hands_link_to", "required"),
        (manifest(hands_link_to="desk.other"), "tools[0].hands_link_to", "unknown"),
        (manifest(hands_link_to="desk.ask"), "tools[0].hands_link_to", "unknown"),
        (manifest(hands_link_to=7), "tools[0].hands_link_to", "type"),
        (manifest(pausing(pauses=False)), "tools[0].hands_link_to", "incoherent"),
        (manifest(send=CONNECTED), "tools[0].hands_link_to", "unsupported"),
        (manifest(pausing(mutating=False)), "tools[0].hands_link_to", "incoherent"),
        (
            manifest(send=carrier(effects=[{"kind": "sensitive-data-egress"}])),
            "tools[0].hands_link_to",
            "incoherent",
        ),
        (manifest(entry=PLAIN), "tools[0].definition.pauses", "incoherent"),
        (
            manifest(pausing(mutating=False), entry={"builtin": "read"}),
            "tools[0].definition.pauses",
            "incoherent",
        ),
        (manifest(send=carrier(pauses=True)), "tools[1].definition.pauses", "incoherent"),
    ],
)
def test_what_cannot_wait_or_has_nobody_to_carry_its_link_is_refused(
    raw: dict[str, Any], field: str, rule: str
) -> None:
    with pytest.raises(BadManifest) as refused:
        parse_manifest(raw)
    assert (field, rule) in {(one.path, one.rule) for one in refused.value.problems}


ASKED = {"pause": {"input": {"reply": {"to": ["<{wait_link}>"]}}, "seconds": 60}}


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (PYTHON, ASKED),
        (NodeEntry("desk.mjs", "ask"), ASKED),
        (PiEntry("desk.ts", "ask"), {"content": [], "structuredContent": ASKED}),
        (
            CommandEntry(Protocol.JSON, Program("desk")),
            {"content": [{"type": "json", "data": ASKED}]},
        ),
    ],
)
def test_every_kind_of_code_asks_to_wait_in_its_own_form(entry: Entry, value: Any) -> None:
    asked = asked_pause(entry, value)
    assert asked is not None
    assert asked.seconds == 60
    assert asked.with_link("https://x/1") == {"reply": {"to": ["<https://x/1>"]}}
    assert asked.given == ASKED["pause"]["input"]


@pytest.mark.parametrize("value", [{"signed": True}, {"pause": 1, "signed": 1}, [ASKED], None, "x"])
def test_any_other_answer_is_a_result(value: Any) -> None:
    assert asked_pause(PYTHON, value) is None


@pytest.mark.parametrize(
    "pause",
    [
        True,
        {},
        {"input": "{wait_link}"},
        {"input": {"to": "{wait_link}"}, "other": 1},
        {"input": {"to": "somewhere"}},
        {"input": {"{wait_link}": "in a key"}},
        {"input": {"to": "{wait_link}"}, "seconds": 0},
        {"input": {"to": "{wait_link}"}, "seconds": True},
        {"input": {"to": "{wait_link}"}, "seconds": 24 * 24 * 3600 + 1},
    ],
)
def test_a_wish_to_wait_that_cannot_be_heard_is_no_result_either(pause: Any) -> None:
    with pytest.raises(BadPause):
        asked_pause(PYTHON, {"pause": pause})
