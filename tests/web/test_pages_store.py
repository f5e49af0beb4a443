"""What is true in a room, and in what order it is told: the page's store, with plain values."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.web.modules import Run

pytestmark = pytest.mark.browser

MARA = {"id": 1, "username": "mara", "name": "Mara Lindqvist"}
TOMAS = {"id": 2, "username": "tomas", "name": "Tomás Ferreira"}
SCRIBE = {"slug": "scribe", "name": "Scribe"}


class Feed:
    """Numbered events, as the server sends them."""

    def __init__(self, position: int = 0) -> None:
        self.position = position

    def __call__(self, kind: str, actor: str = "user:1", **data: Any) -> dict[str, Any]:
        self.position += 1
        return {
            "type": "event",
            "position": self.position,
            "kind": kind,
            "actor": actor,
            "at": f"2026-11-30T10:00:{self.position:02d}+00:00",
            "data": data,
        }


def hello(position: int = 0, **snapshot: Any) -> dict[str, Any]:
    """What a fresh socket says first."""
    nothing: dict[str, Any] = {
        name: [] for name in ("items", "runs", "calls", "approvals", "artifacts", "streams")
    }
    return {
        "type": "hello",
        "room": {"id": "r", "name": "Incident", "closed": False},
        "me": MARA,
        "position": position,
        "resumed": False,
        "snapshot": {
            "participants": [{**MARA, "role": "owner", "online": True}],
            "seats": [SCRIBE],
            "more": False,
            **nothing,
            **snapshot,
        },
    }


def after(run: Run, *messages: dict[str, Any]) -> dict[str, Any]:
    """The state after these messages."""
    state: dict[str, Any] = run(
        "room/store.js",
        "let state = module.initial({ room: { id: 'r' }, me });"
        "for (const message of messages) state = module.reduce(state, message);"
        "return JSON.parse(JSON.stringify(state));",
        me=MARA,
        messages=list(messages),
    )
    return state


def blocks(run: Run, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The timeline after these messages."""
    told: list[dict[str, Any]] = run(
        "room/blocks.js",
        "return JSON.parse(JSON.stringify(module.blocksOf(state)));",
        state=after(run, *messages),
    )
    return told


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"author": {"kind": "user", **TOMAS}, "text": text, **more}


def agent_said(text: str) -> dict[str, Any]:
    return {"author": {"kind": "agent", **SCRIBE}, "text": text, "run": "run1", "for": MARA}


CALL = {"call": "c1", "run": "run1", "tool": "mail", "title": "Send 3 mails"}
STARTED = {"run": "run1", "agent": SCRIBE, "member": MARA}
ASKED = {"approval": "a1", **CALL, "decider": MARA, "expires_at": "2026-12-01T10:00:00+00:00"}


# --- positions


def test_an_event_counts_once_whatever_is_sent_again(run: Run) -> None:
    feed = Feed()
    first, second = feed("message.posted", **said("one")), feed("message.posted", **said("two"))
    state = after(run, hello(), first, first, second, first)
    assert [item["data"]["text"] for item in state["items"]] == ["one", "two"]
    assert (state["position"], state["gap"]) == (2, False)


def test_a_missing_event_is_noticed_and_nothing_after_it_is_shown(run: Run) -> None:
    feed = Feed()
    feed("message.posted", **said("lost"))
    state = after(run, hello(), feed("message.posted", **said("two")))
    assert state["gap"] is True
    assert (state["position"], state["items"]) == (0, [])


def test_resuming_keeps_what_was_known_and_forgets_what_was_being_written(run: Run) -> None:
    feed = Feed()
    stream = {"type": "stream.open", "stream": "s", "of": "say", "run": "run1", "meta": {}}
    resumed = {**hello(1), "resumed": True, "snapshot": None}
    state = after(run, hello(), feed("message.posted", **said("one")), stream, resumed)
    assert len(state["items"]) == 1
    assert state["streams"] == {}
    assert state["link"] == "open"


def test_a_snapshot_replaces_everything(run: Run) -> None:
    feed = Feed()
    state = after(run, hello(), feed("run.started", **STARTED), hello(9))
    assert (state["position"], state["runs"], state["items"]) == (9, {}, [])


def test_earlier_events_come_before_and_change_nothing_of_the_present(run: Run) -> None:
    feed = Feed(10)
    old = [
        {**Feed(4)("message.posted", **said("old")), "position": 5},
        {**Feed(5)("participant.left", **TOMAS), "position": 6},
        {**Feed(6)("call.settled", **CALL, outcome="ok"), "position": 7},
    ]
    state = after(
        run, hello(10), feed("message.posted", **said("new")), {"type": "older", "items": old}
    )
    assert [item["position"] for item in state["items"]] == [5, 6, 7, 11]
    assert state["calls"]["c1"]["outcome"] == "ok"
    assert [one["id"] for one in state["participants"]] == [1]
    assert state["more"] is True


# --- calls, approvals, runs


def test_one_of_two_yeses_and_a_wait_for_another_system_are_remembered(run: Run) -> None:
    feed = Feed()
    state = after(
        run,
        hello(),
        feed("approval.requested", **ASKED, second="administrator"),
        feed("approval.answered", approval="a1", call="c1", by=MARA, second="administrator"),
        feed("call.paused", **CALL, until="2026-12-02T10:00:00+00:00"),
    )
    assert state["approvals"]["a1"]["state"] == "pending"
    assert state["approvals"]["a1"]["agreed"] == [MARA]
    assert state["calls"]["c1"]["state"] == "dispatched"
    assert state["calls"]["c1"]["paused"] == "2026-12-02T10:00:00+00:00"


def test_a_call_goes_through_its_states_in_place(run: Run) -> None:
    feed = Feed()
    messages = [
        hello(),
        feed("run.started", **STARTED),
        feed("call.proposed", **CALL, agent=SCRIBE, state="proposed", effect="write"),
        feed("approval.requested", **ASKED),
        feed("run.parked", run="run1"),
    ]
    state = after(run, *messages)
    assert state["calls"]["c1"]["state"] == "waiting"
    assert state["approvals"]["a1"]["state"] == "pending"
    assert state["runs"]["run1"]["state"] == "parked"
    messages += [
        feed("approval.decided", approval="a1", call="c1", decision="approved", by=MARA),
        feed("call.dispatched", call="c1", run="run1"),
    ]
    state = after(run, *messages)
    assert state["approvals"]["a1"]["state"] == "approved"
    assert state["calls"]["c1"]["state"] == "dispatched"
    assert state["calls"]["c1"]["title"] == "Send 3 mails"
    messages += [
        feed("call.settled", **CALL, outcome="ok", milliseconds=400),
        feed("run.finished", run="run1", outcome="completed"),
    ]
    state = after(run, *messages)
    assert (state["calls"]["c1"]["state"], state["runs"]) == ("settled", {})
    turns = [block for block in blocks(run, *messages) if block["type"] == "turn"]
    assert [[part["type"] for part in turn["parts"]] for turn in turns] == [["call"]]


def test_an_event_that_the_snapshot_already_knew_does_no_harm(run: Run) -> None:
    feed = Feed()
    proposed = feed("call.proposed", **CALL, agent=SCRIBE, state="proposed")
    known = {**CALL, "agent": SCRIBE, "state": "settled", "outcome": "ok"}
    state = after(run, hello(0, calls=[known]), proposed)
    assert state["calls"]["c1"]["state"] == "settled"


@pytest.mark.parametrize(
    ("call", "word", "tone"),
    [
        ({"state": "proposed"}, "Checking", "quiet"),
        ({"state": "dispatched"}, "Running", "info"),
        ({"state": "settled", "outcome": "ok", "milliseconds": 400}, "Done · 0.4 s", "ok"),
        ({"state": "settled", "outcome": "timeout", "milliseconds": 20000}, "Failed · 20 s", "bad"),
        ({"state": "settled", "outcome": "ambiguous", "milliseconds": 9}, "Outcome unknown", "odd"),
        ({"state": "settled", "outcome": "suppressed"}, "Repeat, not sent", "quiet"),
        ({"state": "settled", "outcome": "refused"}, "Not allowed", "quiet"),
        ({"state": "settled", "outcome": "stopped"}, "Stopped", "quiet"),
        ({"state": "settled", "outcome": "denied"}, "Denied", "quiet"),
        (
            {"state": "settled", "outcome": "denied", "reason": "approval_expired"},
            "Ran out of time",
            "quiet",
        ),
        (
            {"state": "settled", "outcome": "denied", "reason": "superseded"},
            "Arguments changed",
            "quiet",
        ),
        ({"state": "dispatched", "paused": True}, "Waiting for another system", "wait"),
        # What we do not know is never shown as something that may be tried again.
        ({"state": "settled", "outcome": "something new"}, "Outcome unknown", "odd"),
    ],
)
def test_every_state_of_a_call_has_its_word(
    run: Run, call: dict[str, Any], word: str, tone: str
) -> None:
    state = run("words.js", "return module.callState(call);", call=call)
    assert (state["word"], state["tone"]) == (word, tone)


@pytest.mark.parametrize(("decider", "word"), [(MARA, "you"), (TOMAS, "Tomás Ferreira")])
def test_a_waiting_call_names_who_decides(run: Run, decider: dict[str, Any], word: str) -> None:
    state = run(
        "words.js",
        "return module.callState({ state: 'waiting' }, { me, decider });",
        me=MARA,
        decider=decider,
    )
    assert state["word"] == f"Waiting for {word}"


def test_an_undeclared_effect_counts_as_sensitive(run: Run) -> None:
    assert run("words.js", "return module.effectWords('').word;") == "Sensitive"


def test_a_turn_gathers_what_follows_each_other_and_breaks_where_somebody_speaks(
    run: Run,
) -> None:
    feed = Feed()
    told = blocks(
        run,
        hello(),
        feed("run.started", **STARTED),
        feed("message.posted", actor="agent:scribe", **agent_said("I begin.")),
        feed("call.proposed", **CALL, agent=SCRIBE, state="proposed"),
        feed("message.posted", actor="user:2", **said("wait")),
        feed("message.posted", actor="agent:scribe", **agent_said("Done.")),
        feed("run.finished", run="run1", outcome="stopped", explanation="Stopped by Mara."),
    )
    assert [
        (block["type"], [part["type"] for part in block.get("parts", [])]) for block in told
    ] == [
        ("turn", ["say", "call"]),
        ("person", []),
        ("turn", ["say", "end"]),
    ]
    assert {block["member"]["username"] for block in told if block["type"] == "turn"} == {"mara"}
    assert len({block["key"] for block in told}) == 3


def test_who_is_here_follows_the_roster_and_presence(run: Run) -> None:
    feed = Feed()
    messages = [
        hello(),
        feed("participant.joined", **TOMAS, role="member"),
        {"type": "presence", "online": [2]},
    ]
    people = after(run, *messages)["participants"]
    assert [(one["username"], one["online"]) for one in people] == [
        ("mara", False),
        ("tomas", True),
    ]
    messages.append(feed("participant.left", **TOMAS, role="member"))
    assert len(after(run, *messages)["participants"]) == 1


def test_a_closed_room_is_closed(run: Run) -> None:
    assert after(run, hello(), Feed()("room.closed"))["room"]["closed"] is True


# --- what is being written


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def opened(of: str = "artifact") -> dict[str, Any]:
    return {
        "type": "stream.open",
        "stream": "s",
        "of": of,
        "run": "run1",
        "agent": SCRIBE,
        "member": MARA,
        "meta": {"kind": "markdown"},
    }


def delta(before: str, more: str, **changes: Any) -> dict[str, Any]:
    whole = before + more
    return {
        "type": "stream.delta",
        "stream": "s",
        "base": len(before),
        "length": len(whole),
        "digest": digest(whole),
        "delta": more,
        **changes,
    }


def test_text_grows_by_pieces_counted_in_code_points(run: Run) -> None:
    first, second = "Zahlen 😀", " und 𝔘mlaute ä"
    state = after(run, hello(), opened(), delta("", first), delta(first, second))
    stream = state["streams"]["s"]
    assert (stream["text"], stream["broken"]) == (first + second, False)
    assert stream["length"] == len(first + second)
    found = run("room/streams.js", "return module.digestOf(text);", text=first + second)
    assert found == stream["digest"]


@pytest.mark.parametrize("changes", [{"base": 1}, {"length": 99}])
def test_a_piece_that_does_not_fit_is_not_shown(run: Run, changes: dict[str, Any]) -> None:
    state = after(run, hello(), opened(), delta("", "one"), delta("one", "two", **changes))
    stream = state["streams"]["s"]
    assert (stream["text"], stream["broken"]) == ("one", True)


def test_the_whole_text_mends_a_broken_stream(run: Run) -> None:
    whole = {**opened(), "type": "stream.text", "text": "one two", "length": 7}
    state = after(run, hello(), opened(), delta("one", "two"), whole, delta("one two", "!"))
    assert state["streams"]["s"]["text"] == "one two!"
    assert state["streams"]["s"]["broken"] is False


def test_a_title_may_come_while_the_text_grows(run: Run) -> None:
    state = after(run, hello(), opened(), delta("", "x", meta={"title": "Review"}))
    assert state["streams"]["s"]["meta"] == {"kind": "markdown", "title": "Review"}


def test_a_message_takes_the_place_of_the_text_that_was_seen_growing(run: Run) -> None:
    feed = Feed()
    messages = [
        hello(),
        feed("run.started", **STARTED),
        opened("say"),
        delta("", "All is"),
    ]
    live = blocks(run, *messages)[-1]
    assert live["parts"] == [{"type": "say", "key": "say:1", "text": "All is", "live": True}]
    messages.append(feed("message.posted", actor="agent:scribe", **agent_said("All is well.")))
    final = blocks(run, *messages)[-1]
    assert final["parts"] == [{"type": "say", "key": "say:1", "text": "All is well."}]
    # The same keys: the words stay where they are on the page.
    assert final["key"] == live["key"]


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        ({"broken_off": True}, "broke off"),
        ({"goes_on": True}, "goes on below"),
        ({"corrected": True}, "corrected this answer"),
    ],
)
def test_an_answer_that_is_not_simply_one_says_so(
    run: Run, words: dict[str, bool], mark: str
) -> None:
    feed = Feed()
    started = feed("run.started", **STARTED)
    posted = feed("message.posted", actor="agent:scribe", **agent_said("Half of it"), **words)
    assert mark in blocks(run, hello(), started, posted)[-1]["parts"][0]["mark"]


def test_steering_and_helping_are_told_in_the_conversation(run: Run) -> None:
    feed = Feed()
    messages = [
        hello(),
        feed("run.started", **STARTED),
        feed("run.steered", run="run1", position=1, member=MARA),
        feed("run.started", run="run2", parent="run1", agent=SCRIBE, member=MARA),
    ]
    told = [block["text"] for block in blocks(run, *messages) if block["type"] == "fact"]
    assert told == ["Mara Lindqvist steers the work under way", "Scribe helps with this"]


def test_a_dropped_text_leaves_nothing_behind(run: Run) -> None:
    close = {"type": "stream.close", "stream": "s", "outcome": "dropped"}
    assert after(run, hello(), opened("say"), delta("", "x"), close)["streams"] == {}
    state = after(run, hello(), opened(), delta("", "x"), close)
    assert state["streams"]["s"]["closed"] == "dropped"
    assert blocks(run, hello(), opened(), delta("", "x"), close) == []


def test_a_run_that_ends_takes_its_open_texts_along(run: Run) -> None:
    feed = Feed()
    started = feed("run.started", **STARTED)
    state = after(
        run, hello(), started, opened(), feed("run.finished", run="run1", outcome="failed")
    )
    assert state["streams"]["s"]["closed"] == "dropped"
