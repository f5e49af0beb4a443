import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.redaction import MAX_DEPTH, REDACTED, is_credential_name, redact, redact_text

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.c2lnbmF0dXJl"
BASIC = base64.b64encode(b"user:hunter2").decode()


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "apiKey", "API-KEY", "x-api-key", "openai_api_key", "token", "access_token",
        "refreshToken", "id_token", "password", "db_password", "passwd", "secret", "client_secret",
        "Authorization", "Proxy-Authorization", "private_key", "cookie", "Set-Cookie",
        "credentials", "aws_secret_access_key", "AWSAccessKeyId", "passphrase",
        "X-Amz-Signature", "X-Amz-Security-Token", "csrf_token", "jwt",
    ],
)  # fmt: skip
def test_a_credential_is_known_by_its_name(name: str) -> None:
    assert is_credential_name(name)
    assert redact({name: "hunter2"}) == {name: REDACTED}
    assert redact({"a": [{name: {"deep": "hunter2"}}]}) == {"a": [{name: REDACTED}]}


@pytest.mark.parametrize(
    "name",
    [
        "title",
        "key",
        "keyboard",
        "tokenizer",
        "secretary",
        "author",
        "next_page_token",
        "nextPageToken",
    ],
)
def test_an_ordinary_name_is_left_alone(name: str) -> None:
    assert redact({name: "value"}) == {name: "value"}


def test_counting_tokens_is_not_holding_one() -> None:
    value = {"total_tokens": 12, "token": None, "has_password": True}
    assert redact(value) == value
    assert redact({"tokens": ["a"], "token": 5}) == {"tokens": REDACTED, "token": REDACTED}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://s3.test/a?X-Amz-Signature=abc123&x=1", "abc123"),
        ("https://s3.test/a?x=1&X-Amz-Credential=AKID%2F2024", "AKID"),
        ("https://x.test/a?sig=abc%2Bdef", "abc"),
        ("https://x.test/a?token=abc", "abc"),
        ("https://x.test/cb#access_token=abc123&state=1", "abc123"),
        ("https://x.test/a?%61pi_key=abc123", "abc123"),
        ("postgres://kaizen:hunter2@db/kaizen", "hunter2"),
        ("Authorization: Bearer abc123def456", "abc123def456"),
        (f"Authorization: Basic {BASIC}", BASIC),
        (f"basic {BASIC.rstrip('=')}", BASIC.rstrip("=")),
        (JWT, JWT),
        ("AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
        ("ghp_" + "a1" * 18, "a1a1"),
        ("key sk-proj-abcdefghij0123456789 there", "abcdefghij"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE and cut", "MIIE"),
    ],
)
def test_a_credential_is_known_by_its_shape(text: str, secret: str) -> None:
    redacted = redact_text(f"before {text} after")
    assert secret not in redacted
    assert REDACTED in redacted
    assert redacted.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "Basic understanding of bearer certificates",
        "https://x.test/a?page=2&signature_count=3",
        "mail me at someone@x.test: thanks",
        "The token bucket has a secret ingredient.",
        "key=value in a file",
    ],
)
def test_prose_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


def test_a_key_may_betray_a_secret_too() -> None:
    assert JWT not in json.dumps(redact({JWT: 1}))


def test_depth_is_bounded() -> None:
    value: Any = "secret"
    for _ in range(5000):
        value = [value]
    text = json.dumps(redact(value))
    assert "nested too deeply" in text
    assert text.count("[") <= MAX_DEPTH + 2


def test_what_is_not_json_is_left_out() -> None:
    assert redact({"a": b"secret"}) == {"a": "[left out: a bytes]"}


@pytest.mark.parametrize(
    "hostile",
    ["-----BEGIN A-----" * 3000, "eyJ" + "a" * 60_000, "eyJaaaaaaaa-" * 5000, "?a=" * 20_000,
     "a://" * 15_000, "bearer " * 9000, "AKIA" * 15_000, "sk-" * 20_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_hostile_text_takes_bounded_work(hostile: str) -> None:
    # Exponential or cubic work would not come back within the suite's patience.
    assert isinstance(redact_text(hostile), str)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
)


@given(json_values)
@settings(deadline=None)
def test_redacting_twice_changes_nothing_more(value: Any) -> None:
    once = redact(value)
    assert repr(redact(once)) == repr(once)
