"""The same as plain_http.py, with a run whose token is of no use to whoever steals it.

    python3 -m venv bound && bound/bin/pip install joserfc==1.8.0
    KAIZEN_PASSWORD=… bound/bin/python examples/bound_http.py --username mara

The program makes a key that never leaves it. A proof of that key goes with the request that opens
the run, which binds the run's token to it, and a fresh one with every request after that (RFC 9449,
DPoP): for its method, its address, its moment and its token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import time
import uuid

from joserfc import jws
from joserfc.jwk import ECKey
from plain_http import Kaizen, main


class BoundKaizen(Kaizen):
    """A Kaizen to which every request proves that this program holds its key."""

    def __init__(self, url: str, *, authorization: str = "", key: ECKey | None = None) -> None:
        super().__init__(url, authorization=authorization)
        self._key = key or ECKey.generate_key("P-256")

    def of_run(self, token: str) -> Kaizen:
        """Return the same Kaizen as whoever holds a run's token and the key that it is bound to."""
        return BoundKaizen(self.url, authorization=f"DPoP {token}", key=self._key)

    def proof(self, method: str, url: str) -> dict[str, str]:
        """Return a fresh proof; a request that is sent again gets another."""
        scheme, _, token = self._authorization.partition(" ")
        claims = {
            "jti": str(uuid.uuid4()),
            "htm": method,
            "htu": url.partition("?")[0],
            "iat": int(time.time()),
        }
        if scheme == "DPoP":
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self._key.as_dict(private=False)}
        return {"DPoP": jws.serialize_compact(header, json.dumps(claims), self._key)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], BoundKaizen))
