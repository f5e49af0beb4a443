"""Somebody who holds a key and makes proofs with it, by hand and without our own library."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class KeyHolder:
    """A key of one of the two kinds that count."""

    def __init__(self, algorithm: str = "ES256") -> None:
        self.algorithm = algorithm
        self._key: Any
        if algorithm == "ES256":
            self._key = ec.generate_private_key(ec.SECP256R1())
            numbers = self._key.public_key().public_numbers()
            x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
            self.jwk = {"kty": "EC", "crv": "P-256", "x": b64(x), "y": b64(y)}
        else:
            self._key = ed25519.Ed25519PrivateKey.generate()
            raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}

    @property
    def thumbprint(self) -> str:
        text = json.dumps(self.jwk, sort_keys=True, separators=(",", ":"))
        return b64(hashlib.sha256(text.encode()).digest())

    def proof(
        self,
        method: str,
        address: str,
        token: str | None = None,
        *,
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Make a proof; whatever is named replaces what belongs there, and None leaves it out."""
        head = {"typ": "dpop+jwt", "alg": self.algorithm, "jwk": self.jwk, **(header or {})}
        said: dict[str, Any] = {
            "jti": uuid.uuid4().hex,
            "htm": method,
            "htu": address,
            "iat": int(time.time()),
        }
        if token is not None:
            said["ath"] = b64(hashlib.sha256(token.encode()).digest())
        said |= claims
        said = {name: value for name, value in said.items() if value is not None}
        return self.sign(json.dumps(head), json.dumps(said))

    def sign(self, header: str, claims: str) -> str:
        signed = f"{b64(header.encode())}.{b64(claims.encode())}"
        return f"{signed}.{b64(self._signature(signed.encode()))}"

    def _signature(self, signed: bytes) -> bytes:
        if self.algorithm != "ES256":
            return bytes(self._key.sign(signed))
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
