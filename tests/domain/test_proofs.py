"""A proof that its sender holds a key: for one method, one address, one token, one moment."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.proofs import (
    EARLY_SECONDS,
    MAX_PROOF,
    OLD_SECONDS,
    BadProof,
    digest_of_token,
    read_proof,
)
from tests.factories.keys import KeyHolder, b64

ADDRESS = "https://kaizen.example/api/v1/callback/calls"
NOW = 1_800_000_000
TOKEN = "a-token-of-a-run"
KEY = KeyHolder()


def read(text: str, **other: Any) -> Any:
    about = {"method": "POST", "address": ADDRESS, "token": TOKEN, "now": float(NOW), **other}
    return read_proof(text, **about)


def made(key: KeyHolder = KEY, **claims: Any) -> str:
    return key.proof("POST", ADDRESS, TOKEN, **{"iat": NOW, **claims})


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
def test_a_proof_names_its_key_by_the_standards_thumbprint(algorithm: str) -> None:
    key = KeyHolder(algorithm)
    proof = read(made(key, jti="the-first"))
    assert (proof.key, proof.ident) == (key.thumbprint, "the-first")


def test_the_thumbprint_and_the_tokens_digest_are_those_of_the_standards() -> None:
    # The key of RFC 8037's appendix and the token of RFC 9449's own example.
    digest = digest_of_token("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU")
    assert digest == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
    key = KeyHolder("EdDSA")
    key.jwk = {
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }  # fmt: skip
    assert key.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"htm": "GET"}, "htm"),
        ({"htm": "post"}, "htm"),
        ({"htu": ADDRESS + "/1"}, "htu"),
        ({"htu": ADDRESS.replace("https", "http")}, "htu"),
        ({"htu": ADDRESS.replace("kaizen", "other")}, "htu"),
        ({"htu": ADDRESS.replace("example", "example:8443")}, "htu"),
        ({"htu": ADDRESS.replace("https://", "https://user@")}, "htu"),
        ({"htu": "https://kaizen.example:port/"}, "htu"),
        ({"htu": 5}, "htu"),
        ({"htu": None}, "htu"),
        ({"iat": NOW - OLD_SECONDS - 1}, "iat"),
        ({"iat": NOW + EARLY_SECONDS + 1}, "iat"),
        ({"iat": None}, "iat"),
        ({"iat": True}, "iat"),
        ({"iat": str(NOW)}, "iat"),
        ({"jti": None}, "jti"),
        ({"jti": ""}, "jti"),
        ({"jti": "x" * 129}, "jti"),
        ({"jti": "a\nb"}, "jti"),
        ({"ath": None}, "ath"),
        ({"ath": digest_of_token("another")}, "ath"),
        ({"ath": 1}, "ath"),
    ],
)
def test_a_proof_for_anything_else_is_refused_by_name(claims: dict[str, Any], says: str) -> None:
    with pytest.raises(BadProof, match=says):
        read(made(**claims))


def test_an_address_is_the_same_whatever_its_query_case_of_host_and_usual_port() -> None:
    for same in (
        "HTTPS://Kaizen.Example/api/v1/callback/calls",
        "https://kaizen.example:443/api/v1/callback/calls",
        ADDRESS + "?wait=25#here",
    ):
        assert read(made(htu=same)).key == KEY.thumbprint


def test_the_window_counts_to_its_second() -> None:
    for inside in (NOW - OLD_SECONDS, NOW + EARLY_SECONDS, NOW + 0.5):
        assert read(made(iat=inside)).key == KEY.thumbprint


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"typ": "jwt"}, "typ"),
        ({"alg": "none"}, "signed with"),
        ({"alg": "HS256"}, "signed with"),
        ({"alg": "ES384"}, "signed with"),
        ({"alg": "RS256"}, "signed with"),
        ({"alg": ["ES256"]}, "signed with"),
        ({"alg": "EdDSA"}, "OKP"),
        ({"crit": ["exp"]}, "extensions"),
        ({"jwk": "key"}, "jwk"),
        ({"jwk": None}, "jwk"),
        ({"jwk": {**KEY.jwk, "d": b64(b"1" * 32)}}, "private"),
        ({"jwk": {**KEY.jwk, "k": "c2VjcmV0"}}, "private"),
        ({"jwk": {"kty": "oct", "k": "c2VjcmV0"}}, "private"),
        ({"jwk": {**KEY.jwk, "crv": "P-384"}}, "curve"),
        ({"jwk": {**KEY.jwk, "x": "short"}}, "x as 43"),
        ({"jwk": {**KEY.jwk, "y": 7}}, "y as 43"),
        ({"jwk": {**KEY.jwk, "y": KEY.jwk["x"]}}, "not signed"),
        ({"jwk": KeyHolder().jwk}, "not signed"),
    ],
)
def test_a_header_that_proves_nothing_is_refused(header: dict[str, Any], says: str) -> None:
    with pytest.raises(BadProof, match=says):
        read(KEY.proof("POST", ADDRESS, TOKEN, header=header, iat=NOW))


def test_a_signature_by_the_public_key_as_a_shared_secret_is_none() -> None:
    head, claims, _ = made().split(".")
    head = b64(json.dumps({"typ": "dpop+jwt", "alg": "HS256", "jwk": KEY.jwk}).encode())
    signed = f"{head}.{claims}".encode()
    forged = hmac.new(json.dumps(KEY.jwk).encode(), signed, hashlib.sha256).digest()
    with pytest.raises(BadProof):
        read(f"{head}.{claims}.{b64(forged)}")


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a.b.c", "a.b", "é.b.c", "x" * (MAX_PROOF + 1), made() + "," + made()],
)
def test_what_is_no_signed_text_is_refused(text: str) -> None:
    with pytest.raises(BadProof):
        read(text)


def test_json_that_two_readers_could_read_differently_is_refused() -> None:
    head = json.dumps({"typ": "dpop+jwt", "alg": "ES256", "jwk": KEY.jwk})
    claims = f'{{"jti": "1", "htm": "GET", "htm": "POST", "htu": "{ADDRESS}", "iat": {NOW}}}'
    with pytest.raises(BadProof, match="two readers"):
        read(KEY.sign(head, claims), token=None)


def test_a_proof_with_a_bit_changed_anywhere_is_refused() -> None:
    whole = made()
    for at in range(0, len(whole) - 1, 7):
        changed = whole[:at] + ("A" if whole[at] != "A" else "B") + whole[at + 1 :]
        with pytest.raises(BadProof):
            read(changed)


@given(st.text(max_size=200))
def test_any_text_is_refused_with_words_and_never_otherwise(text: str) -> None:
    for tried in (text, f"{b64(text.encode('utf-8', 'replace'))}.e30.AA"):
        with pytest.raises(BadProof):
            read(tried)


def test_nobody_without_a_proof_pays_for_the_library() -> None:
    program = (
        "import sys; from apps.domain.proofs import BadProof, read_proof\n"
        "try: read_proof('a.b.c', method='', address='', token=None, now=0)\n"
        "except BadProof: pass\n"
        "print(any(name.startswith('joserfc') for name in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"
