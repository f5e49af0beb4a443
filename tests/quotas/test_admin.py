"""Administrators set limits; each is written down, and none that could never apply is kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.quotas.models import Price, Quota
from tests.factories.rooms import make_agent, make_member

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db: Any) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a long enough secret"))
    return client


def send(admin: Client, **fields: Any) -> Any:
    words = {"subject": "member", "unit": "calls", "period": "day", "most": "10", **fields}
    return admin.post("/admin/quotas/quota/add/", words)


def test_a_limit_is_set_changed_and_removed_and_each_is_written_down(admin: Client) -> None:
    mara = make_member("mara")
    assert send(admin, member=str(mara.pk)).status_code == 302
    quota = Quota.objects.get()
    path = f"/admin/quotas/quota/{quota.pk}/"
    changed = {
        "subject": "member",
        "member": str(mara.pk),
        "unit": "calls",
        "period": "day",
        "most": "5",
    }
    assert admin.post(f"{path}change/", changed).status_code == 302
    assert admin.post(f"{path}delete/", {"post": "yes"}).status_code == 302
    assert not Quota.objects.exists()
    rows = AuditRow.objects.filter(action__startswith="quota.").order_by("id")
    assert [(row.action, row.detail["most"]) for row in rows] == [
        ("quota.set", 10),
        ("quota.set", 5),
        ("quota.removed", 5),
    ]
    assert rows[0].detail["whose"] == mara.key


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"unit": "running", "period": "day"}, "counted now"),
        ({"unit": "tokens", "period": "now"}, "counted now"),
        ({"subject": "agent", "member": "mara"}, "names no member"),
        ({"most": "-1"}, "greater than or equal to 0"),
    ],
)
def test_a_limit_that_could_never_apply_is_refused(
    admin: Client, words: dict[str, str], says: str
) -> None:
    if "member" in words:
        words = {**words, "member": str(make_member("mara").pk)}
    answer = send(admin, **words)
    assert answer.status_code == 200
    assert says in answer.content.decode()
    assert not Quota.objects.exists()


def test_there_is_one_limit_of_each_kind(admin: Client) -> None:
    agent = make_agent(make_member("mara"), slug="scribe")
    assert send(admin, subject="agent", agent=str(agent.pk)).status_code == 302
    assert send(admin, subject="agent", agent=str(agent.pk)).status_code == 200
    assert send(admin, subject="agent").status_code == 302
    assert send(admin, subject="agent").status_code == 200
    assert Quota.objects.count() == 2


def test_prices_are_written_down(admin: Client) -> None:
    price = {"model_name": "small", "input_price": "3000000", "output_price": "15000000"}
    assert admin.post("/admin/quotas/price/add/", price).status_code == 302
    assert Price.objects.get().model_name == "small"
    assert AuditRow.objects.get(action="price.set").detail["input"] == 3_000_000


@pytest.mark.parametrize("page", ["quota", "price", "meter", "reservation"])
def test_every_page_opens(admin: Client, page: str) -> None:
    assert admin.get(f"/admin/quotas/{page}/").status_code == 200


def test_members_have_no_business_there() -> None:
    member = Client()
    member.force_login(make_member("mara"))
    assert member.get("/admin/quotas/quota/").status_code == 302
