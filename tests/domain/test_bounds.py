"""When do the calls that a turn has made end it?"""

from __future__ import annotations

import pytest

from apps.domain.attempts import Attempt
from apps.domain.bounds import MAX_SAME_FAILURES, MAX_SEARCHES, delivered, end_of, must_explain
from apps.domain.tooling import Outcome, Reason


def calls(*said: tuple[str, Outcome], reason: str = "", final: bool = False) -> list[Attempt]:
    return [
        Attempt(
            step=step,
            place=0,
            tool=tool,
            title=tool.title(),
            effect="write",
            outcome=outcome,
            reason=reason,
            arguments_digest="same",
            searches=tool == "find",
            non_substitutable=final,
        )
        for step, (tool, outcome) in enumerate(said, start=1)
    ]


FOUND = ("find", Outcome.OK)
DONE = ("write", Outcome.OK)
WRONG = ("write", Outcome.ERROR)


def test_a_turn_goes_on_while_its_calls_are_ordinary() -> None:
    assert end_of([]) == ""
    assert end_of(calls(WRONG, DONE, FOUND, WRONG, FOUND)) == ""


def test_searches_without_another_call_that_succeeds_end_the_turn_with_words() -> None:
    assert end_of(calls(*[FOUND] * (MAX_SEARCHES - 1))) == ""
    said = end_of(calls(*[FOUND] * MAX_SEARCHES))
    assert "searched for tools 4 times" in said


def test_another_successful_call_sets_the_searches_back_and_a_failed_one_does_not() -> None:
    three = [FOUND] * (MAX_SEARCHES - 1)
    assert end_of(calls(*three, DONE, *three)) == ""
    assert end_of(calls(*three, WRONG, FOUND))


def test_identical_failures_have_a_bound_of_their_own() -> None:
    assert end_of(calls(*[WRONG] * (MAX_SAME_FAILURES - 1))) == ""
    assert "exactly the same arguments" in end_of(calls(*[WRONG] * MAX_SAME_FAILURES))


def test_a_success_between_identical_failures_sets_their_count_back() -> None:
    some = [WRONG] * (MAX_SAME_FAILURES - 1)
    assert end_of(calls(*some, DONE, *some)) == ""


@pytest.mark.parametrize("reason", [Reason.PERMISSION_DENIED, Reason.NOT_ADMITTED_HERE])
def test_a_real_block_by_policy_ends_the_turn(reason: Reason) -> None:
    blocked = calls(("write", Outcome.REFUSED), reason=reason.value)
    assert "not allowed here" in end_of(blocked)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.SUPPRESSED, ""),
        (Outcome.REFUSED, Reason.INVALID_ARGUMENTS),
        (Outcome.REFUSED, Reason.OUTSIDE_CATALOG),
        (Outcome.REFUSED, Reason.QUOTA_EXCEEDED),
        (Outcome.DENIED, Reason.APPROVAL_DENIED),
        # What a tool itself says of the world outside is a result, and no policy of ours.
        (Outcome.ERROR, Reason.PERMISSION_DENIED),
    ],
)
def test_a_refusal_that_is_a_result_lets_the_turn_answer(outcome: Outcome, reason: str) -> None:
    assert end_of(calls(("write", outcome), reason=str(reason))) == ""


def test_a_failure_that_nothing_may_stand_in_for_leaves_one_step_to_explain() -> None:
    failed = must_explain(calls(WRONG, final=True))
    assert failed is not None
    assert failed.tool == "write"
    assert must_explain(calls(WRONG)) is None
    assert must_explain(calls(DONE, final=True)) is None
    assert must_explain([]) is None


def test_only_an_artifact_that_stays_is_a_delivery() -> None:
    made = Attempt(
        step=1, place=0, tool="t", title="T", effect="write", outcome=Outcome.OK, artifacts=("a:1",)
    )
    assert delivered([made])
    assert not delivered(calls(DONE))
