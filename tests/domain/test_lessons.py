"""What the calls of a turn teach about the next one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.lessons import CUT_OFF_AFTER, MOST_KEPT, Ended, Lessons
from apps.domain.tooling import FaultDomain, Outcome, Reason


def ended(digest: str = "a", **changes: Any) -> Ended:
    words: dict[str, Any] = {
        "tool": "look",
        "digest": digest,
        "step": 1,
        "outcome": Outcome.ERROR,
        "reason": Reason.CONTRACT_ERROR,
        "fault": FaultDomain.TOOL,
        **changes,
    }
    return Ended(**words)


def taught(*ends: Ended) -> Lessons:
    lessons = Lessons()
    for end in ends:
        # Kept with the run between two calls.
        lessons = Lessons.of(json.loads(json.dumps(lessons.after(end).as_json())))
    return lessons


def test_a_tool_that_fails_different_requests_is_cut_off() -> None:
    requests = [ended(str(number)) for number in range(CUT_OFF_AFTER)]
    assert not taught(*requests[:-1]).cuts_off("look")
    assert taught(*requests).cuts_off("look")
    assert not taught(*requests).cuts_off("other")


def test_the_same_request_that_fails_again_says_nothing_more_of_the_tool() -> None:
    assert not taught(*[ended() for _ in range(20)]).cuts_off("look")


@pytest.mark.parametrize("fault", [FaultDomain.CALLER, FaultDomain.BOUNDARY, None])
def test_a_failure_of_the_caller_never_counts(fault: FaultDomain | None) -> None:
    programs = [
        ended(str(number), reason=Reason.COMMAND_FAILED, fault=fault) for number in range(20)
    ]
    assert not taught(*programs).cuts_off("look")


def test_a_success_gives_the_tool_its_health_back() -> None:
    requests = [ended(str(number)) for number in range(CUT_OFF_AFTER - 1)]
    fine = ended("fine", outcome=Outcome.OK, reason="", fault=None)
    assert not taught(*requests, fine, ended("more")).cuts_off("look")


def test_identical_input_that_just_failed_is_remembered_from_the_next_step_on() -> None:
    lessons = taught(ended(reason=Reason.COMMAND_FAILED, fault=FaultDomain.CALLER, step=3))
    assert lessons.same_failure("look", "a", step=4) == "command_failed"
    assert lessons.same_failure("look", "a", step=3) is None
    assert lessons.same_failure("look", "b", step=4) is None
    assert lessons.same_failure("other", "a", step=4) is None


@pytest.mark.parametrize(
    "reason", [Reason.EXECUTION_ERROR, Reason.TIMEOUT, Reason.DEPENDENCY_UNAVAILABLE]
)
def test_what_may_go_better_next_time_may_be_tried_unchanged(reason: Reason) -> None:
    assert taught(ended(reason=reason)).same_failure("look", "a", step=2) is None


def test_a_failure_that_says_it_may_be_retried_may_be() -> None:
    assert taught(ended(retryable=True)).same_failure("look", "a", step=2) is None


def test_whatever_succeeds_may_have_changed_what_the_others_failed_on() -> None:
    fine = ended("b", tool="write", outcome=Outcome.OK, reason="", fault=None, step=2)
    assert taught(ended(), fine).same_failure("look", "a", step=3) is None


def test_repeats_are_counted_for_each_call_apart() -> None:
    repeat = ended(outcome=Outcome.SUPPRESSED, reason="", fault=None)
    lessons = taught(repeat, repeat, ended("b", outcome=Outcome.SUPPRESSED, reason="", fault=None))
    assert [lessons.repeats_of("look", digest) for digest in "abc"] == [2, 1, 0]


@pytest.mark.parametrize(
    "outcome", [Outcome.REFUSED, Outcome.DENIED, Outcome.STOPPED, Outcome.ABANDONED]
)
def test_what_never_ran_teaches_nothing(outcome: Outcome) -> None:
    assert taught(ended(outcome=outcome)) == Lessons()


@given(
    st.lists(
        st.builds(
            ended,
            digest=st.integers(0, 400).map(str),
            tool=st.sampled_from("abcdefgh"),
            step=st.integers(1, 99),
            outcome=st.sampled_from(list(Outcome)),
            reason=st.sampled_from(list(Reason)),
            fault=st.sampled_from(list(FaultDomain)),
        ),
        max_size=300,
    )
)
def test_what_is_kept_stays_small(ends: list[Ended]) -> None:
    lessons = taught(*ends)
    assert all(len(kept) <= MOST_KEPT for kept in (lessons.standing, lessons.repeats))
    assert all(len(digests) <= CUT_OFF_AFTER for digests in lessons.failing.values())
