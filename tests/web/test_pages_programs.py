"""A program in the room page: its output under the call, and the files that are to come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.modules import Run
from tests.web.test_pages_store import MARA, SCRIBE, Feed, hello

pytestmark = pytest.mark.browser


def to_come(run: Run, *messages: dict[str, Any]) -> list[str]:
    """The names of the files that are shown as being made."""
    names: list[str] = run(
        "room/store.js",
        "let state = module.initial({ room: { id: 'r' }, me });"
        "for (const message of messages) state = module.reduce(state, message);"
        "return module.filesToCome(state).map((file) => `${file.call}:${file.name}`);",
        me=MARA,
        messages=list(messages),
    )
    return names


def begun(feed: Feed, *targets: str) -> list[dict[str, Any]]:
    return [
        hello(),
        feed("run.started", run="r1", agent=SCRIBE, member=MARA),
        feed("call.proposed", call="c1", run="r1", tool="run_code", title="Run code"),
        feed("call.dispatched", call="c1", run="r1", targets=list(targets)),
    ]


def saved(feed: Feed, name: str) -> dict[str, Any]:
    event = feed("artifact.saved", artifact=name, call="c1", target=name, title=name, version=1)
    event["data"] |= {"kind": "file", "size": 3, "by": {}}
    return event


def test_files_stand_in_the_room_from_the_moment_that_their_call_runs(run: Run) -> None:
    assert to_come(run, *begun(Feed(), "a.docx", "b.csv")) == ["c1:a.docx", "c1:b.csv"]


def test_a_file_that_is_there_takes_the_place_of_what_announced_it(run: Run) -> None:
    feed = Feed()
    told = begun(feed, "a.docx", "b.csv")
    assert to_come(run, *told, saved(feed, "a.docx")) == ["c1:b.csv"]


def test_a_call_that_settles_without_its_file_takes_the_announcement_along(run: Run) -> None:
    feed = Feed()
    told = begun(feed, "a.docx")
    settled = feed("call.settled", call="c1", run="r1", outcome="error", reason="command_failed")
    assert to_come(run, *told, settled) == []


def test_the_end_of_the_run_does_so_where_that_event_was_lost(run: Run) -> None:
    feed = Feed()
    told = begun(feed, "a.docx")
    assert to_come(run, *told, feed("run.finished", run="r1", outcome="failed")) == []


def test_whoever_joins_sees_what_the_snapshot_says_is_to_come(run: Run) -> None:
    call = {
        "call": "c1", "run": "r1", "tool": "run_code", "title": "Run code",
        "state": "dispatched", "targets": ["a.docx"],
    }  # fmt: skip
    live = {"id": "r1", "agent": SCRIBE, "member": MARA, "state": "parked"}
    assert to_come(run, hello(calls=[call], runs=[live])) == ["c1:a.docx"]
    # Without its run, whatever was once announced is over.
    assert to_come(run, hello(calls=[call])) == []


OUTPUT = {
    "type": "stream.text", "stream": "output:c1", "of": "output", "run": "r1", "agent": SCRIBE,
    "member": MARA, "meta": {"call": "c1"}, "text": "one\n", "digest": "",
}  # fmt: skip


def test_output_is_no_line_of_the_conversation_but_stands_under_its_call(run: Run) -> None:
    told: dict[str, Any] = run(
        "room/store.js",
        "const { blocksOf } = await import('/static/js/room/blocks.js');"
        "let state = module.initial({ room: { id: 'r' }, me });"
        "for (const message of messages) state = module.reduce(state, message);"
        "return { parts: blocksOf(state).flatMap((one) => one.parts || []).map((one) => one.type),"
        " text: state.streams['output:c1'].text };",
        me=MARA,
        messages=[*begun(Feed()), OUTPUT],
    )
    assert told == {"parts": ["call"], "text": "one\n"}


def terminal(run: Run, body: str) -> Any:
    return run(
        "room/terminal.js",
        "let stops = 0;"
        "const one = new module.Terminal({ title: 'Run code', stop: () => { stops += 1; } });"
        "document.body.replaceChildren(one.element);" + body,
    )


def test_what_a_program_writes_is_text_and_never_markup(run: Run) -> None:
    told = terminal(
        run,
        "one.update('<img src=x onerror=alert(1)>\\n', true);"
        "return [one.element.querySelectorAll('img').length, one.paper.textContent];",
    )
    assert told == [0, "<img src=x onerror=alert(1)>\n"]


def test_output_is_reached_by_keyboard_and_floods_no_reader(run: Run) -> None:
    told = terminal(
        run,
        "const paper = one.element.querySelector('pre');"
        "return [paper.tabIndex, paper.getAttribute('aria-live'), paper.getAttribute('aria-label'),"
        " one.element.querySelector('.fold').getAttribute('aria-expanded')];",
    )
    assert told == [0, "off", "Output of Run code", "true"]


def test_stop_is_beside_the_output_while_it_runs_and_gone_afterwards(run: Run) -> None:
    told = terminal(
        run,
        "const button = one.element.querySelector('.danger'); button.click();"
        "one.update('one\\ntwo\\n', false);"
        "return [stops, one.element.querySelector('.danger'), one.paper.hidden,"
        " one.label.textContent];",
    )
    assert told == [1, None, True, "Output, 2 lines"]


def test_new_output_is_added_to_what_stands_there(run: Run) -> None:
    told = terminal(
        run,
        "one.update('one\\n', true); const node = one.words; one.update('one\\ntwo\\n', true);"
        "return [one.words === node, one.paper.textContent];",
    )
    assert told == [True, "one\ntwo\n"]


@pytest.mark.parametrize("was_marked", [True, False])
def test_the_navigation_says_that_an_agent_works_here_only_while_one_does(
    run: Run, was_marked: bool
) -> None:
    marks = run(
        "room/place.js",
        "const place = document.createElement('a');"
        "if (was) place.innerHTML = '<span class=pulse></span>';"
        "const seen = () => place.querySelectorAll('.pulse').length;"
        "const counts = [true, true, false, false].map((works) => {"
        "  module.markWork(place, works); return seen(); });"
        "module.markWork(null, true);"
        "return counts;",
        was=was_marked,
    )
    assert marks == [1, 1, 0, 0]
