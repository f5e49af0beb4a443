"""What does the review queue show, to whom, and what do its buttons do?"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.core.models import Blob
from apps.packages.models import PackageVersion
from apps.proposals import services
from apps.proposals.models import PINS, PackageProposal
from tests.factories import packages as made
from tests.proposals.conftest import give_receipt

pytestmark = pytest.mark.django_db
QUEUE = "admin:proposals_packageproposal_changelist"


@pytest.fixture
def desk(client: Client, reviewer: User) -> Client:
    client.force_login(reviewer)
    return client


def page_of(proposal: PackageProposal) -> str:
    return reverse("admin:proposals_packageproposal_change", args=[proposal.pk])


def words(answer: Any) -> str:
    """The text of a page, as a reader sees it."""
    text = answer.content.decode()
    assert answer.status_code == 200, text[:500]
    body = re.sub(r"<(script|style).*?</\1>", " ", text, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def send_in(author: User, version: str, *tools: dict[str, Any], **files: bytes) -> PackageProposal:
    proposal = services.create_proposal(
        author=author,
        manifest=made.manifest("weather", version, *tools),
        files=made.tree(version=version, **files),
    )
    give_receipt(proposal)
    return services.submit_proposal(proposal_id=proposal.pk, author=author)


def test_the_queue_lists_what_waits_and_nothing_else(
    desk: Client, submitted: PackageProposal, author: User
) -> None:
    services.create_proposal(
        author=author,
        manifest=made.manifest("draft", "1.0.0", made.definition("draft.one")),
        files=made.tree("draft"),
    )
    seen = words(desk.get(reverse(QUEUE)))
    assert "weather 1.0.0" in seen
    assert "Python tools · 1 tool · new package" in seen
    assert "Current" in seen
    assert "draft 1.0.0" not in seen
    services.withdraw_proposal(proposal_id=submitted.pk, author=author)
    assert "weather 1.0.0" not in words(desk.get(reverse(QUEUE)))
    assert "weather 1.0.0" in words(desk.get(reverse(QUEUE) + "?state=withdrawn"))
    assert "draft 1.0.0" not in words(desk.get(reverse(QUEUE) + "?state=all"))


def test_the_queue_is_for_reviewers(
    client: Client, submitted: PackageProposal, other: User
) -> None:
    User.objects.filter(pk=other.pk).update(is_staff=True)
    client.force_login(User.objects.get(pk=other.pk))
    for address in (reverse(QUEUE), page_of(submitted)):
        assert client.get(address).status_code == 403
    for verb in ("approve", "reject", "test"):
        address = reverse(f"admin:proposal_{verb}", args=[submitted.pk])
        assert client.post(address, {"reason": "No."}).status_code == 403
    submitted.refresh_from_db()
    assert submitted.state == "submitted"


def test_members_are_sent_to_the_sign_in(
    client: Client, submitted: PackageProposal, other: User
) -> None:
    client.force_login(other)
    assert client.get(page_of(submitted)).status_code == 302


def test_the_page_says_what_the_package_lets_an_agent_do(
    desk: Client, submitted: PackageProposal
) -> None:
    seen = words(desk.get(page_of(submitted)))
    assert "Call pkg_weather_convert. It computes from its arguments and changes nothing." in seen
    assert "Calls pass without asking." in seen
    assert "3 ran , 0 failed" in seen
    assert "by Mara Lindqvist" in seen
    assert "with the note “First one.”" in seen
    assert "proposal.submitted" in seen
    assert "celsius: number" in seen
    assert "Approve weather@1.0.0" in seen


def test_wider_reach_comes_first_and_is_named(
    desk: Client, submitted: PackageProposal, reviewer: User, author: User
) -> None:
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    wider = send_in(
        author,
        "1.1.0",
        made.definition(mutating=True, effects=[{"kind": "writes", "resource": "forecasts"}]),
        made.definition("weather.more"),
        weather_py=made.MODULE.replace(b"9 / 5", b"1.8"),
    )
    seen = words(desk.get(page_of(wider)))
    assert "Wider reach" in seen
    assert "now changes something" in seen
    assert "effects widened: writes forecasts" in seen
    assert "Every call waits for the member’s yes." in seen
    assert "new tool" in seen
    assert seen.index("now changes something") < seen.index("It can’t use a network")
    assert "Replaces 1.0.0" in seen
    assert '"fahrenheit": celsius * 9 / 5 + 32' in seen
    assert '"fahrenheit": celsius * 1.8 + 32' in seen
    assert "Wider" in words(desk.get(reverse(QUEUE)))


def test_whatever_authors_write_is_shown_as_text(desk: Client, author: User) -> None:
    evil = "<script>alert(1)</script>"
    proposal = send_in(
        author,
        "1.0.0",
        made.definition(description=evil),
        weather_py=f"# {evil}\n".encode(),
    )
    PackageProposal.objects.filter(pk=proposal.pk).update(note=evil)
    answer = desk.get(page_of(proposal))
    assert evil not in answer.content.decode()
    assert words(answer).count(evil) >= 3


def test_characters_that_hide_are_made_visible(desk: Client, author: User) -> None:
    proposal = send_in(author, "1.0.0", weather_py="ok = '\u202e'\n".encode())
    seen = words(desk.get(page_of(proposal)))
    assert "⟨U+202E⟩" in seen
    assert "hidden characters" in seen


def test_one_file_alone_and_byte_for_byte(desk: Client, submitted: PackageProposal) -> None:
    alone = words(desk.get(page_of(submitted) + "?file=weather.py"))
    assert "def convert(arguments)" in alone
    assert "water_boils" not in alone
    raw = desk.get(reverse("admin:proposal_file", args=[submitted.pk]) + "?path=weather.py")
    assert raw.content == made.MODULE
    assert raw["Content-Type"].startswith("text/plain")
    assert "sandbox" in raw["Content-Security-Policy"]
    missing = reverse("admin:proposal_file", args=[submitted.pk]) + "?path=../etc/passwd"
    assert desk.get(missing).status_code == 404


def test_approving_admits_and_says_so(
    desk: Client, submitted: PackageProposal, reviewer: User
) -> None:
    address = reverse("admin:proposal_approve", args=[submitted.pk])
    answer = desk.post(address, {"compared_with": ""}, follow=True)
    assert "weather@1.0.0 is admitted and active." in words(answer)
    assert PackageVersion.objects.get().admitted_by == reviewer
    seen = words(desk.get(page_of(submitted)))
    assert "Approved by Ines Moreau" in seen
    assert "Reject weather" not in seen


def test_asking_changes_nothing(desk: Client, submitted: PackageProposal) -> None:
    for verb in ("approve", "reject"):
        words(desk.get(reverse(f"admin:proposal_{verb}", args=[submitted.pk])))
    assert desk.get(reverse("admin:proposal_test", args=[submitted.pk])).status_code == 405
    submitted.refresh_from_db()
    assert submitted.state == "submitted"


def test_a_decision_needs_the_forms_token(reviewer: User, submitted: PackageProposal) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(reviewer)
    address = reverse("admin:proposal_approve", args=[submitted.pk])
    assert strict.post(address, {"compared_with": ""}).status_code == 403


def test_rejecting_needs_a_reason_and_a_refusal_is_written_down(
    desk: Client, submitted: PackageProposal, reviewer: User
) -> None:
    address = reverse("admin:proposal_reject", args=[submitted.pk])
    assert "A reason has 1 to 1000 characters." in words(desk.post(address, {}, follow=True))
    row = AuditRow.objects.get(action="proposal.reject_refused")
    assert (row.actor, row.subject, row.outcome) == (reviewer.key, submitted.key, "refused")
    assert row.detail == {"code": "invalid"}
    answer = desk.post(address, {"reason": "It <b>reads</b> too much."}, follow=True)
    assert "Mara Lindqvist sees your reason." in words(answer)
    assert "“It <b>reads</b> too much.”" in words(desk.get(page_of(submitted)))


def test_nobody_decides_on_their_own(
    client: Client, make_reviewer: Callable[..., User], submitted: PackageProposal
) -> None:
    own = make_reviewer("own")
    PackageProposal.objects.filter(pk=submitted.pk).update(author=own)
    client.force_login(own)
    seen = words(client.get(page_of(submitted)))
    assert "You wrote this: another reviewer decides" in seen
    assert "Approve weather@1.0.0" not in seen
    assert "Reject weather@1.0.0" not in seen
    answer = client.post(
        reverse("admin:proposal_approve", args=[submitted.pk]), {"compared_with": ""}, follow=True
    )
    assert "You wrote this proposal." in words(answer)
    assert AuditRow.objects.filter(action="proposal.approve_refused").count() == 1


def test_a_blocked_approval_says_why(desk: Client, submitted: PackageProposal) -> None:
    give_receipt(submitted, "failed", failed=1)
    seen = words(desk.get(page_of(submitted)))
    assert "No current receipt" in seen
    assert "Approve weather@1.0.0" not in seen
    assert "Reject weather@1.0.0" in seen


def test_changed_bytes_block_and_are_named(desk: Client, submitted: PackageProposal) -> None:
    Blob.objects.filter(pk=submitted.files.get(path="weather.py").blob_id).update(content=b"x")
    assert "Stored bytes were changed" in words(desk.get(page_of(submitted)))


def test_what_was_compared_must_still_be_active(
    desk: Client, submitted: PackageProposal, reviewer: User, author: User
) -> None:
    later = send_in(author, "1.1.0")
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    answer = desk.post(
        reverse("admin:proposal_approve", args=[later.pk]), {"compared_with": ""}, follow=True
    )
    assert "Look at the difference again." in words(answer)


def test_the_tests_can_be_asked_for_again(desk: Client, submitted: PackageProposal) -> None:
    answer = desk.post(reverse("admin:proposal_test", args=[submitted.pk]), follow=True)
    assert "The tests are queued." in words(answer)
    assert submitted.tests.filter(state="queued").count() == 1


def test_the_number_of_queries_does_not_grow(
    desk: Client, author: User, submitted: PackageProposal, django_assert_max_num_queries: Any
) -> None:
    many = {f"part{number}_py": b"x = 1\n" * 40 for number in range(40)}
    services.withdraw_proposal(proposal_id=submitted.pk, author=author)
    large = send_in(author, "1.0.0", *(made.definition(f"w.{n}") for n in range(20)), **many)
    with django_assert_max_num_queries(32):
        words(desk.get(page_of(large)))
    for number in range(12):
        name = f"pack{number}"
        one = services.create_proposal(
            author=author,
            manifest=made.manifest(name, "1.0.0", made.definition(f"{name}.t")),
            files=made.tree(name),
        )
        give_receipt(one)
        services.submit_proposal(proposal_id=one.pk, author=author)
    with django_assert_max_num_queries(16):
        words(desk.get(reverse(QUEUE)))


def test_the_first_page_leads_to_the_queue(desk: Client, submitted: PackageProposal) -> None:
    answer = desk.get(reverse("admin:index"))
    seen = words(answer)
    assert "Decide on what authors sent in" in seen
    assert reverse(QUEUE) in answer.content.decode()
    # This reviewer may not read the trail, so it is not offered.
    assert "What happened, and who did it" not in seen


def with_program(author: User) -> PackageProposal:
    """A proposal whose tool is a program that stands on a folder; no test of it was run yet."""
    raw = made.manifest()
    program = {"command": "tools/run", "args": [], "execution_paths": ["tools"]}
    raw["tools"][0]["entry"] = {"protocol": "json", **program}
    files = {**made.tree(), "tools/run": b"#!/bin/sh\n"}
    return services.create_proposal(author=author, manifest=raw, files=files)


def test_the_receipt_shows_what_each_program_stands_on(desk: Client, author: User) -> None:
    proposal = with_program(author)
    give_receipt(proposal, surface={PINS: {"convert_weather": {"tools": "ab" * 32}}})
    services.submit_proposal(proposal_id=proposal.pk, author=author)
    seen = words(desk.get(page_of(proposal)))
    assert "Programs stand on convert_weather: tools abababababababa…abab" in seen
    assert "Programs pinned" in seen


def test_what_cannot_be_prepared_blocks_the_approval(
    desk: Client, author: User, reviewer: User
) -> None:
    proposal = with_program(author)
    give_receipt(proposal)
    services.submit_proposal(proposal_id=proposal.pk, author=author)
    proposal.files.filter(path="tools/run").delete()
    assert 'PREPARATION_FAILED: "tools" is not there.' in words(desk.get(page_of(proposal)))
