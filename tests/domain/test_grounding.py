"""An answer that claims what did not happen is corrected; one that only sounds so is left alone."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from apps.domain.attempts import Attempt
from apps.domain.claims import MAX_READ
from apps.domain.grounding import ground
from apps.domain.tooling import Outcome, Reason

_steps = itertools.count(1)


def attempt(
    tool: str = "create_artifact",
    title: str = "Create an artifact",
    outcome: Outcome = Outcome.ERROR,
    **words: Any,
) -> Attempt:
    return Attempt(
        step=next(_steps), place=0, tool=tool, title=title, outcome=outcome,
        **{"effect": "write", **words},
    )  # fmt: skip


def letter(outcome: Outcome = Outcome.DENIED, **words: Any) -> Attempt:
    return attempt("send_letter", "Send a letter", outcome, **words)


READ = attempt("read_artifact", "Read an artifact", Outcome.ERROR, effect="read")

CLAIMS = [
    "I created the report.",
    "> You wanted a report.\n\nI created the report.",
    "I've created the report for you.",
    "I have successfully created the report.",
    "I’ve just saved it.",
    "We have now updated the document.",
    "The report has been created.",
    "The report has now been saved.",
    "Your report was created successfully.",
    "The report is saved.",
    "Created the report.",
    "Successfully created the report.",
    "Done.",
    "Done!",
    "All set.",
    "All done!",
    "It's done.",
    "Saved.",
    "Success! Enjoy.",
    "The report is ready.",
    "Your report is now available.",
    "The page is live.",
    "The letter is on its way.",
    "You can find it in your library.",
    "You'll find the report in the pane.",
    "Okay, I went ahead. I have gone ahead and saved the report.",
    "**I created the report.**",
    "- I created the report",
    "✅ Created the report",
    "1. Created the report",
    "I looked at the sources, and I created the report.",
    "The report was saved; have fun with it.",
    "I created it, so you can open it.",
    "The e-mail went out.",
    "The upload was successful.",
    "Everything is done.",
    "I did the work and finished the report.",
]


@pytest.mark.parametrize("text", CLAIMS)
@pytest.mark.parametrize(
    "outcome", [Outcome.ERROR, Outcome.DENIED, Outcome.TIMEOUT, Outcome.AMBIGUOUS]
)
def test_a_claim_over_a_write_that_failed_is_overwritten(text: str, outcome: Outcome) -> None:
    grounded = ground(text, [attempt(outcome=outcome)])
    assert grounded.overwritten
    assert "Not done: Create an artifact" in grounded.text


def test_only_the_false_sentence_goes_and_the_rest_stays() -> None:
    text = "Kaizen keeps receipts. I saved the report. They are spent once.\n\nAsk me for more."
    grounded = ground(text, [attempt()])
    assert "I saved" not in grounded.text
    assert "Kaizen keeps receipts." in grounded.text
    assert "They are spent once." in grounded.text
    assert grounded.text.endswith("Ask me for more.")
    assert grounded.text.startswith(grounded.note)


@pytest.mark.parametrize(
    "text",
    [
        "I could not create the report.",
        "The report was not created.",
        "The report wasn't saved.",
        "I tried to create the report, but it failed.",
        "Creating the report failed with an error.",
        "Mara said no, so nothing was sent.",
        "I was unable to save it.",
        "Once you approve, the letter is sent.",
        "If that works, the report is saved.",
        "Shall I try again so that it is saved?",
        "Was the report created?",
        "The report would have been created.",
        "It will be saved when you say yes.",
        "The report should now be saved.",
        "I need the report to be saved first.",
        "Do you want it sent?",
        "The book was written by Anna in 1998.",
        "The artifact was created yesterday.",
        "The tool says: “I created the report.”",
        "The word `created` is a participle.",
        "> I created the report.",
        "```\nI created the report.\n```",
        "Water is made of hydrogen and oxygen.",
        "Here is what I found about receipts.",
        "Let me know whether it was saved.",
        "The end of the call is unknown, so look before the letter is sent again.",
    ],
)
def test_what_admits_asks_or_only_quotes_is_left_alone(text: str) -> None:
    assert ground(text, [attempt()]).text == text


@pytest.mark.parametrize("text", CLAIMS)
def test_a_claim_over_a_write_that_succeeded_stands(text: str) -> None:
    assert ground(text, [attempt(outcome=Outcome.OK)]).text == text
    assert ground(text, [attempt(outcome=Outcome.SUPPRESSED)]).text == text


def test_a_failure_that_was_made_good_is_none() -> None:
    wrong = attempt(outcome=Outcome.REFUSED, reason=Reason.INVALID_ARGUMENTS.value)
    text = "I created the report."
    assert ground(text, [wrong, attempt(outcome=Outcome.OK)]).text == text
    assert ground(text, [attempt(), attempt(outcome=Outcome.OK)]).text == text


def test_a_no_is_not_made_good_by_another_call() -> None:
    calls = [letter(Outcome.DENIED), letter(Outcome.OK)]
    grounded = ground("I sent both letters.", calls)
    assert "Not done: Send a letter, which was not approved" in grounded.text
    assert "Done: Send a letter" in grounded.text


def test_of_two_writes_the_claim_about_the_failed_one_is_overwritten() -> None:
    calls = [attempt(outcome=Outcome.OK), letter()]
    grounded = ground("I created the artifact. I sent the letter to Anna.", calls)
    assert grounded.overwritten
    assert "I created the artifact." in grounded.text
    assert "to Anna" not in grounded.text


def test_of_two_writes_a_claim_that_may_mean_the_good_one_stands_and_the_record_is_added() -> None:
    calls = [attempt(outcome=Outcome.OK), letter()]
    grounded = ground("I created the artifact.", calls)
    assert grounded.text.startswith("I created the artifact.")
    assert "Not done: Send a letter" in grounded.text
    assert not grounded.overwritten


def test_of_two_writes_an_answer_that_admits_the_failure_is_left_alone() -> None:
    calls = [attempt(outcome=Outcome.OK), letter()]
    text = "I created the artifact. The letter was not sent, because you said no."
    assert ground(text, calls).text == text


def test_a_failed_read_is_no_failed_write() -> None:
    assert ground("Done.", [READ]).text == "Done."


@pytest.mark.parametrize(
    "text",
    [
        "I've saved the report to your library.",
        "I sent the email to Anna.",
        "I have created the artifact.",
        "I updated the file.",
        "We deleted the folder.",
        "The email was successfully sent.",
        "I just uploaded the presentation.",
        "I've filed the ticket and I've created the file.",
    ],
)
def test_a_claim_of_a_write_that_was_never_tried_is_overwritten(text: str) -> None:
    for calls in ([], [READ]):
        grounded = ground(text, calls)
        assert grounded.overwritten
        assert "nothing was made, changed or sent" in grounded.text


@pytest.mark.parametrize(
    "text",
    [
        "I wrote a summary below.",
        "I wrote a short poem for you.",
        "I have drafted an email:",
        "Here is the table. I added the totals.",
        "I made a list of ideas.",
        "I updated my view of this.",
        "I changed the wording of the letter as you asked.",
        "I've prepared the following report.",
        "Done.",
        "Good morning, Mara.",
        "Your report is ready to be read.",
        "Kaizen was built for teams.",
        "Anna sent the letter in May.",
        "The artifact was created by Anna.",
        "The file was saved yesterday.",
        "I can create the file if you like.",
        "Files are saved as versions.",
        "I have sent no email.",
        "I removed the second paragraph of the note here.",
    ],
)
def test_without_any_write_an_answers_own_words_are_no_claim(text: str) -> None:
    assert ground(text, []).text == text


def test_an_answer_may_speak_of_what_earlier_turns_did() -> None:
    text = "Yes, I saved the report to your library."
    assert ground(text, [], wrote_before=True).text == text
    assert ground("I just saved the file.", [], wrote_before=True).overwritten


@pytest.mark.parametrize("text", ["Erledigt!", "El informe está guardado.", "Rapporten er gemt."])
def test_in_another_language_the_record_stands_below_the_answer(text: str) -> None:
    grounded = ground(text, [attempt()])
    assert grounded.text.startswith(text)
    assert "Not done: Create an artifact" in grounded.text
    assert ground(text, [attempt(outcome=Outcome.OK)]).text == text


def test_files_that_a_failed_call_saved_are_always_named() -> None:
    failed = attempt("run_code", "Run code", Outcome.ERROR, saved=("a1:1", "b2:3"))
    honest = ground("The program failed.", [failed])
    assert "`a1:1`, `b2:3`" in honest.text
    assert "may be incomplete" in honest.text
    claimed = ground("I ran it and saved the file.", [failed])
    assert "its change may be incomplete" in claimed.text
    assert "`a1:1`" in claimed.text
    named = "The program failed, but a1:1 and b2:3 were kept."
    assert ground(named, [failed]).text == named


def test_an_unknown_end_is_said_as_unknown() -> None:
    grounded = ground("The letter is on its way.", [letter(Outcome.AMBIGUOUS)])
    assert "unknown end" in grounded.text


@pytest.mark.parametrize("piece", ["I created ", ", ", '"a', "`", "done. ", "and ", "- ", "> a\n"])
def test_a_long_answer_is_read_in_little_time(piece: str) -> None:
    began = time.process_time()
    ground(piece * (MAX_READ // len(piece)), [attempt()])
    # A reader that went back over its text for every place would need minutes.
    assert time.process_time() - began < 5
