"""An administrator reads in words where they are, and how what they look at ended."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.approvals.models import ApprovalRule
from apps.domain.tooling import CallState, Outcome
from apps.runs.models import Call, Run
from apps.runs.timeline import stands
from tests.factories.runs import finished_run


@pytest.fixture
def keeper(db: None) -> User:
    return User.objects.create_user("ines", is_staff=True, is_superuser=True)


@pytest.fixture
def client(keeper: User) -> Client:
    signed_in = Client()
    signed_in.force_login(keeper)
    return signed_in


@pytest.fixture
def run(db: None) -> Run:
    return finished_run()


def place(client: Client, address: str) -> list[str]:
    """What the head of a page says: the list, and what is open in it."""
    page = client.get(address).content.decode()
    return [words.strip() for words in re.findall(r'class="kz-place"[^>]*>([^<]*)<', page)]


def test_a_page_says_in_words_where_one_is(client: Client, run: Run) -> None:
    rule = ApprovalRule.objects.create(second="administrator")
    for address, words in (
        (reverse("admin:runs_run_changelist"), ["Runs"]),
        (reverse("admin:runs_run_change", args=[run.pk]), ["Runs", "Scribe, for Mara Lindqvist"]),
        (reverse("admin:approvals_waiver_changelist"), ["Unasked"]),
        (reverse("admin:policy_explain"), ["Tool policy", "Try a call"]),
        (reverse("admin:grants_policynode_changelist"), ["Tool policy"]),
        (
            reverse("admin:approvals_approvalrule_change", args=[rule.pk]),
            ["Approval rules", "every tool"],
        ),
        (reverse("admin:quotas_quota_add"), ["Quotas", "Add quota"]),
    ):
        assert place(client, address) == words, address
        assert str(run.pk) not in "".join(place(client, address))


def test_every_end_of_a_call_has_words_of_its_own() -> None:
    ends = {stands(Call(state="settled", outcome=outcome.value)) for outcome in Outcome}
    assert len(ends) == len(Outcome)
    for state in CallState:
        assert stands(Call(state=state.value)) not in ends


def test_who_loses_the_way_in_the_administration_is_led_back_to_it(client: Client) -> None:
    nowhere = reverse("admin:runs_run_change", args=["00000000-0000-0000-0000-000000000000"])
    assert 'href="/admin/">Go to the administration' in client.get(nowhere).content.decode()
    lost = client.get("/rooms/00000000-0000-0000-0000-000000000000/")
    assert 'href="/rooms/">Go to your rooms' in lost.content.decode()


def test_a_search_for_tools_that_finds_none_offers_nothing_to_save(client: Client) -> None:
    tree = reverse("admin:grants_policynode_changelist")
    assert "Look over and save" in client.get(tree).content.decode()
    nothing = client.get(f"{tree}?q=no-such-tool").content.decode()
    assert "No tool or surface is called like" in nothing
    assert "Look over and save" not in nothing
