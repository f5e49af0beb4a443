"""Tokens are kept as digests, expire, and can be taken away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from knox.models import AuthToken

from apps.accounts.models import User
from apps.accounts.tokens import make_token, revoke_all_tokens
from apps.audit.models import AuditRow
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member

ME = "/api/v1/auth/me"


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


def with_token(text: str) -> Any:
    client = client_of()
    client.credentials(HTTP_AUTHORIZATION=text)
    return client


def test_the_text_of_a_token_is_not_stored(mara: User) -> None:
    row, text = make_token(user=mara)
    assert text not in str(AuthToken.objects.values())
    assert len(text) == 64
    assert row.digest != text


def test_an_expired_token_says_so(mara: User) -> None:
    _, text = make_token(user=mara)
    AuthToken.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    response = with_token(f"Bearer {text}").get(ME)
    problem(response, 401, "token_expired")
    assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("text", ["Bearer 0123", "Bearer \xff", "Bearer " + "a" * 5000])
def test_an_unknown_token_is_refused(db: None, text: str) -> None:
    problem(with_token(text).get(ME), 401, "token_invalid")


@pytest.mark.parametrize("text", ["Bearer", "Bearer a b"])
def test_a_malformed_header_is_refused(db: None, text: str) -> None:
    problem(with_token(text).get(ME), 401, "authentication_failed")


@pytest.mark.parametrize("text", ["Token 0123", "Run 0123", "Basic dTpw"])
def test_another_scheme_signs_nobody_in(db: None, text: str) -> None:
    problem(with_token(text).get(ME), 401, "not_authenticated")


def test_signing_out_revokes_the_presented_token_only(mara: User) -> None:
    one, two = client_of(mara), client_of(mara)
    assert one.delete("/api/v1/auth/token").status_code == 204
    problem(one.get(ME), 401, "token_invalid")
    assert two.get(ME).status_code == 200


def test_a_session_has_no_token_to_revoke(mara: User) -> None:
    client = client_of()
    client.force_login(mara)
    problem(client.delete("/api/v1/auth/token"), 409, "conflict")


def test_a_member_lists_and_revokes_their_own_tokens(mara: User) -> None:
    client, other = client_of(mara), client_of(mara)
    stranger = client_of(make_member())
    rows = client.get("/api/v1/auth/tokens").json()["results"]
    assert len(rows) == 2
    assert set(rows[0]) == {"id", "created_at", "expiry"}
    ident = rows[0]["id"]
    problem(stranger.delete(f"/api/v1/auth/tokens/{ident}"), 404, "not_found")
    assert client.delete(f"/api/v1/auth/tokens/{rows[1]['id']}").status_code == 204
    problem(client.delete(f"/api/v1/auth/tokens/{rows[1]['id']}"), 401, "token_invalid")
    assert other.get(ME).status_code == 200
    revoked = AuditRow.objects.get(action="token.revoked")
    assert (revoked.actor, revoked.subject) == (mara.key, f"token:{rows[1]['id']}")


def test_past_the_limit_the_oldest_token_goes(mara: User, settings: Any) -> None:
    settings.REST_KNOX = {**settings.REST_KNOX, "TOKEN_LIMIT_PER_USER": 2}
    first, second, third = (client_of(mara) for _ in range(3))
    problem(first.get(ME), 401, "token_invalid")
    assert second.get(ME).status_code == third.get(ME).status_code == 200


def test_all_tokens_of_a_member_end_together(mara: User) -> None:
    one, two, stranger = client_of(mara), client_of(mara), client_of(make_member())
    assert revoke_all_tokens(actor=mara, user=mara) == 2
    for client in (one, two):
        problem(client.get(ME), 401, "token_invalid")
    assert stranger.get(ME).status_code == 200


def test_authentication_asks_the_database_once(mara: User, django_assert_num_queries: Any) -> None:
    client = client_of(mara)
    with django_assert_num_queries(1):
        client.get(ME)
