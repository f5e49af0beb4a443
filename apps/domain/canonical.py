"""What bytes stand for a JSON value, and which incoming bytes are JSON at all?

One value has one canonical text, so that an approval, a receipt and a catalog can be bound
to a digest. Incoming text is read strictly: whatever two readers could understand in two
ways is refused, because a digest must never cover something that another part reads otherwise.
"""

import hashlib
import json
import math
import re
from json.encoder import encode_basestring
from typing import Any

from apps.domain.words import shown

MAX_DEPTH = 128
MAX_INTEGER_DIGITS = 40

# An unterminated string is taken to its end, and nothing is ever given back: one linear pass.
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_NUL_ESCAPE = "\\u0000"


class NotCanonical(ValueError):
    """A value that has no canonical JSON form."""


class BadJson(ValueError):
    """Text that is not JSON as we read it: the rule it broke, a bounded message, and where."""

    def __init__(self, rule: str, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.path = path


def canonical_json(value: Any) -> bytes:
    """Return the one UTF-8 text of a JSON value: sorted keys, no spaces, plain numbers."""
    parts: list[str] = []
    _write(value, parts, 0)
    try:
        return "".join(parts).encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("A string holds a lone surrogate.") from None


def digest(value: Any) -> str:
    """Return the digest of a JSON value's canonical text."""
    return digest_bytes(canonical_json(value))


def digest_bytes(raw: bytes) -> str:
    """Return the digest of bytes in the form used everywhere: `sha256:` and hex."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def strict_loads(raw: bytes | str, *, max_bytes: int, max_depth: int = 64, nul: bool = True) -> Any:
    """Parse one JSON text within bounds, refusing everything ambiguous, or raise `BadJson`.

    Where the value is to be stored, `nul=False` refuses the one character that no column takes.
    """
    text = _decoded(raw, max_bytes)
    _check_depth(text, max_depth)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadJson("syntax", f"This is not JSON: {error.msg} at {where}.") from None
    if _SURROGATE_ESCAPE.search(text) or (not nul and _NUL_ESCAPE in text):
        _check_strings(value, nul=nul)
    return value


def pointer(parts: list[str | int]) -> str:
    """Return the JSON pointer of a path, with `~` and `/` in names escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _write(value: Any, parts: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotCanonical(f"The value is nested deeper than {MAX_DEPTH} levels.")
    if value is None or value is True or value is False:
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        parts.append(encode_basestring(value))
    elif isinstance(value, int):
        parts.append(_integer_text(int(value)))
    elif isinstance(value, float):
        parts.append(_float_text(value))
    elif isinstance(value, dict):
        _write_object(value, parts, depth)
    elif isinstance(value, list | tuple):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            _write(item, parts, depth + 1)
        parts.append("]")
    else:
        raise NotCanonical(f"A {type(value).__name__} is not a JSON value.")


def _write_object(value: dict[Any, Any], parts: list[str], depth: int) -> None:
    for key in value:
        if not isinstance(key, str):
            raise NotCanonical(f"An object key is a {type(key).__name__}, not a string.")
    try:
        # The order is that of UTF-16 code units, as other implementations sort.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
    except UnicodeEncodeError:
        raise NotCanonical("An object key holds a lone surrogate.") from None
    parts.append("{")
    for index, key in enumerate(keys):
        parts.append("," if index else "")
        parts.append(encode_basestring(key))
        parts.append(":")
        _write(value[key], parts, depth + 1)
    parts.append("}")


def _integer_text(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise NotCanonical("An integer has too many digits.") from None


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        raise NotCanonical("NaN and Infinity are not JSON numbers.")
    if value.is_integer():
        # Equal numbers have equal texts: 2.0 and 2 are one value.
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    power = int(exponent)
    if power >= -6:
        return f"{sign}0.{'0' * (-power - 1)}{whole}{fraction}"
    point = "." if fraction else ""
    return f"{sign}{whole}{point}{fraction}e{power}"


def _decoded(raw: bytes | str, max_bytes: int) -> str:
    too_large = BadJson("size", f"The JSON is larger than {max_bytes:,} bytes.")
    if len(raw) > max_bytes:
        raise too_large
    if isinstance(raw, bytes):
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadJson("encoding", f"Byte {error.start} is not UTF-8.") from None
    try:
        size = len(raw.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise BadJson(
            "encoding", f"Character {error.start} is a lone surrogate, which no UTF-8 text holds."
        ) from None
    if size > max_bytes:
        raise too_large
    return raw


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for match in _STRUCTURE.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                raise BadJson("depth", f"The JSON is nested deeper than {max_depth} levels.")
        elif first in "]}":
            depth -= 1


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadJson("duplicate_key", f"The key {shown(key)} occurs twice in one object.")
            seen.add(key)
    return found


def _bounded_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise BadJson("number", f"An integer has more than {MAX_INTEGER_DIGITS} digits.")
    return int(digits)


def _finite_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadJson("number", "A number is too large to be represented.")
    return value


def _no_constant(name: str) -> Any:
    raise BadJson("number", f"{name} is not a JSON number.")


def _check_strings(value: Any, *, nul: bool) -> None:
    """Refuse a character that an escape brought in and nothing can hold, naming where it stands."""
    waiting: list[tuple[list[str | int], Any]] = [([], value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, dict):
            for key, inner in item.items():
                _check_text(key, path, nul=nul)
                waiting.append(([*path, key], inner))
        elif isinstance(item, list):
            waiting.extend(([*path, index], inner) for index, inner in enumerate(item))
        elif isinstance(item, str):
            _check_text(item, path, nul=nul)


def _check_text(text: str, path: list[str | int], *, nul: bool) -> None:
    if not nul and "\x00" in text:
        raise _at("nul", "A string holds the NUL character", path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _at("surrogate", "A string holds a lone surrogate", path) from None


def _at(rule: str, fault: str, path: list[str | int]) -> BadJson:
    where = shown(pointer(path), limit=200)
    return BadJson(rule, f"{fault}, at {where}.", pointer(path)[:200])


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_object,
    parse_int=_bounded_integer,
    parse_float=_finite_float,
    parse_constant=_no_constant,
)
