"""How do secret values lie in the database? Sealed, each for its own row, under rotating keys.

The keys follow from the deployment's secret keys, so that whoever has only the database or only a
backup has nothing. A sealed value names its row: moved to another one it does not open.
"""

from __future__ import annotations

import base64
import functools
import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from apps.broker.errors import SealBroken

Sealed = bytes | memoryview
_PURPOSE = b"kaizen: values that the broker keeps, version 1"


def seal(value: str, *, row: str) -> bytes:
    """Return a value sealed for one row, under the newest key."""
    text = json.dumps({"row": row, "value": value}).encode()
    return _keys().encrypt(text)


def unseal(sealed: Sealed, *, row: str) -> str:
    """Return the value that was sealed for this row, or raise SealBroken."""
    return _opened(sealed, row, _keys())


def is_current(sealed: bytes) -> bool:
    """Tell whether a value is sealed under the newest key."""
    try:
        _key(settings.SECRET_KEY).decrypt(sealed)
    except InvalidToken:
        return False
    return True


def _opened(sealed: Sealed, row: str, keys: MultiFernet) -> str:
    try:
        found = json.loads(keys.decrypt(bytes(sealed)))
    except InvalidToken:
        raise SealBroken(
            "A stored value cannot be opened: KAIZEN_SECRET_KEY has changed, and its fallbacks do"
            " not hold the key that it was sealed with."
        ) from None
    if found["row"] != row:
        raise SealBroken("A stored value was sealed for another row.")
    return str(found["value"])


def _keys() -> MultiFernet:
    return MultiFernet([_key(one) for one in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


@functools.lru_cache(maxsize=16)
def _key(secret: str) -> Fernet:
    derived = HKDF(hashes.SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
