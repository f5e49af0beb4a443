"""Who may come in, how often may they try, and what is written down?"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
from django.test import Client, RequestFactory

from apps.accounts.addresses import address_of
from apps.accounts.errors import SignInRefused
from apps.accounts.models import User
from apps.accounts.services import FAILURES_BY_NAME, verify_sign_in
from apps.audit.models import AuditRow
from apps.core.errors import Unavailable
from apps.core.throttles import Throttled
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member

PASSWORD = "a long enough secret"
TOKEN = "/api/v1/auth/token"


@pytest.fixture
def mara(db: None) -> User:
    return make_member(f"mara-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def address() -> str:
    """An address of this test's own, so that no earlier test counts against it."""
    number = uuid.uuid4().int
    return f"10.{number % 250}.{number // 250 % 250}.{number // 62500 % 250 + 1}"


def sign_in(name: str, password: str, address: str = "127.0.0.1") -> Any:
    return client_of().post(TOKEN, {"username": name, "password": password}, REMOTE_ADDR=address)


def actions(user: User) -> list[str]:
    rows = AuditRow.objects.filter(subject=user.key).order_by("id")
    return list(rows.values_list("action", flat=True))


def test_name_and_password_give_a_token_that_works(mara: User) -> None:
    response = sign_in(mara.username, PASSWORD)
    assert response.status_code == 201
    assert set(response.json()) == {"token", "expiry"}
    client = client_of()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {response.json()['token']}")
    assert client.get("/api/v1/auth/me").json() == {
        "id": mara.pk,
        "username": mara.username,
        "name": mara.username,
        "is_administrator": False,
    }


def test_a_stale_token_does_not_stand_in_the_way_of_a_new_one(mara: User) -> None:
    client = client_of()
    client.credentials(HTTP_AUTHORIZATION="Bearer 0123")
    answer = client.post(TOKEN, {"username": mara.username, "password": PASSWORD})
    assert answer.status_code == 201


def test_wrong_name_wrong_password_and_inactive_look_the_same(mara: User, address: str) -> None:
    shut_out = make_member()
    shut_out.is_active = False
    shut_out.save()
    answers = [
        sign_in(mara.username, "wrong", address),
        sign_in("nobody-here", PASSWORD, address),
        sign_in(shut_out.username, PASSWORD, address),
    ]
    bodies = [problem(answer, 401, "sign_in_refused") for answer in answers]
    assert len({body["detail"] for body in bodies}) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"username": "x"},
        {"username": "x", "password": ["y"]},
        {"username": "x", "password": "y", "otp": 1},
        {"username": "x\x00", "password": "y"},
        {"username": "x" * 151, "password": "y"},
        {"username": "x", "password": "y" * 5000},
    ],
)
def test_a_malformed_sign_in_is_refused(db: None, body: dict[str, Any]) -> None:
    problem(client_of().post(TOKEN, body), 422, "invalid")


def test_failures_are_counted_by_name_and_address(mara: User, address: str) -> None:
    for _ in range(FAILURES_BY_NAME.most):
        problem(sign_in(mara.username, "wrong", address), 401, "sign_in_refused")
    response = sign_in(mara.username, PASSWORD, address)
    problem(response, 429, "throttled")
    assert int(response["Retry-After"]) >= 1
    # The name in other letters is the same name, and nobody is shut out from elsewhere.
    problem(sign_in(mara.username.upper(), PASSWORD, address), 429, "throttled")
    assert sign_in(mara.username, PASSWORD, "192.0.2.7").status_code == 201


def test_many_names_from_one_address_are_counted_together(
    mara: User, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.accounts import services
    from apps.core.throttles import Limit

    monkeypatch.setattr(services, "FAILURES_BY_ADDRESS", Limit(f"t-{address}", 3, 60))
    for number in range(3):
        problem(sign_in(f"guess{number}", "wrong", address), 401, "sign_in_refused")
    problem(sign_in(mara.username, PASSWORD, address), 429, "throttled")


def test_success_is_not_counted(mara: User, address: str) -> None:
    for _ in range(FAILURES_BY_NAME.most + 2):
        assert sign_in(mara.username, PASSWORD, address).status_code == 201


def test_while_nothing_can_be_counted_nobody_comes_in(mara: User, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    problem(sign_in(mara.username, PASSWORD), 503, "unavailable")
    request = RequestFactory().post("/")
    with pytest.raises(Unavailable):
        verify_sign_in(request=request, username=mara.username, password=PASSWORD)


def test_the_trail_shows_who_came_and_who_failed(mara: User, address: str) -> None:
    sign_in(mara.username, "wrong", address)
    sign_in(mara.username, PASSWORD, address)
    client = Client()
    client.force_login(mara)
    client.logout()
    assert actions(mara) == ["user.sign_in_failed", "user.signed_in", "user.signed_out"]
    made = AuditRow.objects.get(action="token.made")
    assert made.actor == mara.key


def test_what_was_typed_is_never_kept(
    mara: User, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        sign_in(mara.username, "hunter2-wrong-password", address)
        # People type their password into the name's box.
        sign_in("hunter2-my-real-password", "x", address)
        token = sign_in(mara.username, PASSWORD, address).json()["token"]
    kept = str(list(AuditRow.objects.values())) + caplog.text
    for secret in ("hunter2", PASSWORD, token):
        assert secret not in kept


def test_the_admin_counts_too(mara: User, settings: Any) -> None:
    mara.is_staff = True
    mara.save()
    client = Client()
    fields = {"username": mara.username, "password": "wrong", "next": "/admin/"}
    for _ in range(FAILURES_BY_NAME.most):
        assert client.post("/admin/login/", fields).status_code == 200
    response = client.post("/admin/login/", {**fields, "password": PASSWORD})
    assert response.status_code == 200
    assert b"Try again in" in response.content
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    other = make_member()
    other.is_staff = True
    other.save()
    fields = {"username": other.username, "password": PASSWORD, "next": "/admin/"}
    assert client.post("/admin/login/", fields).status_code == 200
    assert "_auth_user_id" not in client.session


def test_an_administrator_comes_in_and_a_member_does_not(mara: User) -> None:
    client = Client()
    fields = {"username": mara.username, "password": PASSWORD, "next": "/admin/"}
    assert client.post("/admin/login/", fields).status_code == 200
    mara.is_staff = True
    mara.save()
    assert client.post("/admin/login/", fields).status_code == 302


def test_who_is_shut_out_loses_session_and_token_at_once(mara: User) -> None:
    browser, program = Client(), client_of(mara)
    browser.force_login(mara)
    assert browser.get("/api/v1/auth/me").status_code == 200
    assert program.get("/api/v1/auth/me").status_code == 200
    User.objects.filter(pk=mara.pk).update(is_active=False)
    assert browser.get("/api/v1/auth/me").status_code == 401
    problem(program.get("/api/v1/auth/me"), 401, "token_invalid")


@pytest.mark.parametrize(
    ("raw", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("", "unknown"),
        ("nonsense", "unknown"),
    ],
)
def test_addresses_are_counted_as_lines_are_sold(raw: str, counted: str) -> None:
    assert address_of(RequestFactory().get("/", REMOTE_ADDR=raw)) == counted


def test_the_throttle_and_the_refusal_are_plain_refusals() -> None:
    assert (SignInRefused.status, Throttled.status, Unavailable.status) == (401, 429, 503)
