"""What must never reach a model, a room, a log or an audit row, and how is it taken out?

Two things betray a credential: the name it stands under, and the shape it has. Redaction
would rather take too much than too little, and never fails on what it is given.
"""

import base64
import binascii
import re
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

REDACTED: Final = "[redacted]"
TOO_DEEP: Final = "[left out: nested too deeply]"
MAX_DEPTH: Final = 48
MAX_REMEMBERED: Final = 64

_KEY_ENDINGS: Final = (
    "accesskey",
    "accesskeyid",
    "apikey",
    "authorization",
    "connectionstring",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "encryptionkey",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "secrets",
    "signingkey",
    "token",
    "tokens",
)
# A place in a listing is no credential, though it is called a token.
_CURSORS: Final = ("pagetoken", "continuationtoken", "synctoken")
_QUERY_NAMES: Final = frozenset({"auth", "code", "key", "sas", "sig", "signature"})
_SIGNED_URL: Final = re.compile(r"x(?:amz|goog|ms)(?:signature|credential|securitytoken)")

_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,60}-----.*?(?:-----END [A-Z0-9 ]{1,60}-----|\Z)", re.DOTALL
)
_QUERY: Final = re.compile(r"([?&#;])([A-Za-z0-9_.%-]{1,64})=([^&\s\"'<>#;\\]+)")
_USER_INFO: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@:\"']{0,200}:[^\s/@\"']{1,400}@"
)
_BEARER: Final = re.compile(r"\b(bearer)(\s{1,4})([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_BASIC: Final = re.compile(r"\b(basic)(\s{1,4})([A-Za-z0-9+/]{8,}={0,2})", re.IGNORECASE)
_SCHEME: Final = re.compile("bearer|basic", re.IGNORECASE)
_KNOWN_SHAPES: Final = re.compile(
    r"\b(?:"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[opsur]_[A-Za-z0-9]{30,}+"
    r"|github_pat_[A-Za-z0-9_]{30,}+"
    r"|glpat-[A-Za-z0-9_-]{20,}+"
    r"|sk-[A-Za-z0-9_-]{20,}+"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}+"
    r"|AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9])"
    r")"
)
# Tried only where a run of its letters begins, and never taken back: each letter is read once for
# each of the three parts that it can be in.
_SIGNED_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9_-])((?:(?!\beyJ)[A-Za-z0-9_-])*+)"
    r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+"
)


def redact(value: Any) -> Any:
    """Return a copy of a JSON value without the credentials that can be recognised in it."""
    return _redacted(value, 0)


def redact_text(text: str) -> str:
    """Return text without the credentials that can be recognised in it."""
    # Each shape has something in it that most texts lack, which is found sooner than the shape.
    if "-----BEGIN " in text:
        text = _PEM.sub(REDACTED, text)
    if "://" in text:
        text = _USER_INFO.sub(rf"\1{REDACTED}@", text)
    if "=" in text:
        text = _QUERY.sub(_redacted_parameter, text)
    if _SCHEME.search(text):
        text = _BEARER.sub(_redacted_bearer, text)
        text = _BASIC.sub(_redacted_basic, text)
    if "eyJ" in text:
        text = _SIGNED_TOKEN.sub(rf"\1{REDACTED}", text)
    return _KNOWN_SHAPES.sub(REDACTED, text)


def is_credential_name(name: str) -> bool:
    """Tell whether a key, header or parameter of this name holds a credential."""
    return _is_credential_name(name) if len(name) <= MAX_REMEMBERED else _names_one(name)


def _names_one(name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if plain.endswith(_CURSORS):
        return False
    return plain.endswith(_KEY_ENDINGS) or _SIGNED_URL.fullmatch(plain) is not None


_is_credential_name = lru_cache(maxsize=4096)(_names_one)


def _redacted(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, dict):
        return {
            _redacted_key(key): REDACTED
            if _holds_credential(str(key), inner)
            else _redacted(inner, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(inner, depth + 1) for inner in value]
    # Nothing is known of such a value, so nothing of it is shown.
    return f"[left out: a {type(value).__name__}]"


def _redacted_key(key: Any) -> str:
    return redact_text(str(key))


def _holds_credential(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool) or not is_credential_name(key):
        return False
    # "total_tokens": 12 counts something; a list or text under the same name is the thing itself.
    counts = key.lower().endswith("tokens") and isinstance(value, int | float)
    return not counts


def _redacted_parameter(found: re.Match[str]) -> str:
    lead, name, _ = found.groups()
    plain = unquote(name).lower()
    if plain in _QUERY_NAMES or is_credential_name(plain):
        return f"{lead}{name}={REDACTED}"
    return found.group()


def _redacted_bearer(found: re.Match[str]) -> str:
    word, space, token = found.groups()
    # "Bearer certificates" is prose; a token has digits, or a length that no word has.
    if any(char.isdigit() for char in token) or len(token) >= 24:
        return f"{word}{space}{REDACTED}"
    return found.group()


def _redacted_basic(found: re.Match[str]) -> str:
    word, space, pair = found.groups()
    try:
        decoded = base64.b64decode(pair + "=" * (-len(pair) % 4), validate=True)
    except (binascii.Error, ValueError):
        return found.group()
    return f"{word}{space}{REDACTED}" if b":" in decoded else found.group()
