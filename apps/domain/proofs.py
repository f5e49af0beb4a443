"""Does whoever sends a request hold a key? A proof, signed for this one request.

The form is that of RFC 9449 (DPoP): a small signed text with the method and the address that it is
for, the moment of its making, an id of its own and the digest of the token that goes with it. A key
is known by its thumbprint (RFC 7638). That a proof counts once is for its reader to remember.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import warnings
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from apps.domain.canonical import BadJson, strict_loads

TYPE: Final = "dpop+jwt"
MAX_PROOF: Final = 4_096
MAX_IDENT: Final = 128
MAX_ADDRESS: Final = 2_048
OLD_SECONDS: Final = 60
EARLY_SECONDS: Final = 5
"""How far the clock of whoever makes proofs may be ahead of ours."""
COUNTS_FOR: Final = OLD_SECONDS + EARLY_SECONDS + 1
"""So long a proof may come again, so its id is remembered for that long."""

# Each algorithm with the one kind of key that goes with it, and that key's public members.
ALGORITHMS: Final = {
    "ES256": ("EC", "P-256", ("x", "y")),
    "EdDSA": ("OKP", "Ed25519", ("x",)),
}
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})
_COORDINATE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_PORTS: Final = {"http": 80, "https": 443}


class BadProof(ValueError):
    """A proof that proves nothing, and why; the words quote nothing of it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a proof has proven: which key its sender holds, and under which id it counts once."""

    key: str
    ident: str


def read_proof(text: str, *, method: str, address: str, token: str | None, now: float) -> Proof:
    """Check a proof for one request, with the token that it carries where one is carried."""
    if not 0 < len(text) <= MAX_PROOF or not text.isascii():
        raise BadProof(f"A proof is one signed text of at most {MAX_PROOF:,} characters.")
    parts = text.split(".")
    if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        raise BadProof("A proof is a JWS in its compact form: three parts with points between.")
    header, claims = _object(parts[0], "header"), _object(parts[1], "claims")
    algorithm, jwk = _key_in(header)
    _check_claims(claims, method=method, address=address, token=token, now=now)
    # Last, for it costs most; what was read before is trusted only from here on.
    thumbprint = _verified(text, algorithm, jwk)
    return Proof(key=thumbprint, ident=claims["jti"])


def _object(part: str, what: str) -> dict[str, Any]:
    try:
        read = strict_loads(
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)),
            max_bytes=MAX_PROOF,
            max_depth=4,
            nul=False,
        )
    except (BadJson, ValueError):
        raise BadProof(f"The {what} of the proof are no JSON that two readers agree on.") from None
    if not isinstance(read, dict):
        raise BadProof(f"The {what} of the proof are no JSON object.")
    return read


def _key_in(header: dict[str, Any]) -> tuple[str, dict[str, str | list[str]]]:
    """Return the algorithm and the public key of a header, with nothing but what makes the key."""
    if header.get("typ") != TYPE:
        raise BadProof(f"The proof's typ is {TYPE}.")
    if "crit" in header:
        raise BadProof("The proof has extensions that nobody here understands.")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise BadProof(f"The proof is signed with {' or '.join(ALGORITHMS)}.")
    kind, curve, members = ALGORITHMS[algorithm]
    jwk = header.get("jwk")
    if not isinstance(jwk, dict):
        raise BadProof("The proof's header has the public key as jwk.")
    if not _PRIVATE.isdisjoint(jwk):
        raise BadProof("The proof's jwk has a private part. Take a new key: this one is known now.")
    if jwk.get("kty") != kind or jwk.get("crv") != curve:
        raise BadProof(f"A key for {algorithm} is of kind {kind} on the curve {curve}.")
    for name in members:
        if not isinstance(jwk.get(name), str) or not _COORDINATE.fullmatch(jwk[name]):
            raise BadProof(f"The proof's jwk has {name} as 43 characters of base64url.")
    return algorithm, {"kty": kind, "crv": curve, **{name: jwk[name] for name in members}}


def _check_claims(
    claims: dict[str, Any], *, method: str, address: str, token: str | None, now: float
) -> None:
    ident = claims.get("jti")
    if not isinstance(ident, str) or not 0 < len(ident) <= MAX_IDENT or not ident.isprintable():
        raise BadProof(f"The proof's jti has 1 to {MAX_IDENT} printable characters.")
    if claims.get("htm") != method:
        raise BadProof("The proof's htm names another method.")
    if not _is_same_address(claims.get("htu"), address):
        raise BadProof("The proof's htu names another address.")
    made = claims.get("iat")
    if isinstance(made, bool) or not isinstance(made, int | float) or not math.isfinite(made):
        raise BadProof("The proof's iat is the moment of its making, in seconds since 1970.")
    if not now - OLD_SECONDS <= made <= now + EARLY_SECONDS:
        raise BadProof(
            f"The proof's iat lies more than {OLD_SECONDS} seconds back or more than"
            f" {EARLY_SECONDS} ahead. Make a proof for each request, and look at the clock."
        )
    if token is not None:
        bound = claims.get("ath")
        if not isinstance(bound, str) or not hmac.compare_digest(
            bound.encode("utf-8", "replace"), digest_of_token(token).encode()
        ):
            raise BadProof("The proof's ath is not the digest of the token that came with it.")


def digest_of_token(token: str) -> str:
    """Return the digest under which a proof names the token that goes with it."""
    raw = hashlib.sha256(token.encode("utf-8", "replace")).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _is_same_address(given: Any, address: str) -> bool:
    """Compare two addresses without query and fragment."""
    if not isinstance(given, str) or not 0 < len(given) <= MAX_ADDRESS:
        return False
    try:
        return _place(urlsplit(given)) == _place(urlsplit(address))
    except ValueError:
        return False


def _place(parts: SplitResult) -> tuple[str, str, int | None, str]:
    if "@" in parts.netloc:
        raise ValueError("An address with somebody's name in it is none of ours.")
    scheme = parts.scheme.lower()
    port = _PORTS.get(scheme) if parts.port is None else parts.port
    return scheme, (parts.hostname or "").lower(), port, parts.path or "/"


def _verified(text: str, algorithm: str, jwk: dict[str, str | list[str]]) -> str:
    """Return the thumbprint of the key under which the proof is signed."""
    # Here, so that nobody who holds no key pays for the library.
    from joserfc import jws
    from joserfc.errors import JoseError, SecurityWarning
    from joserfc.jwk import ECKey, OKPKey

    # The name is said to be too wide; with the one curve that we take it is not.
    warnings.filterwarnings("ignore", "EdDSA is deprecated", SecurityWarning)
    try:
        key = ECKey.import_key(jwk) if jwk["kty"] == "EC" else OKPKey.import_key(jwk)
        jws.deserialize_compact(text, key, algorithms=[algorithm])
        return key.thumbprint()
    except (JoseError, ValueError):
        raise BadProof("The proof is not signed under the key that it names.") from None
