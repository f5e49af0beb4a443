"""Which names and addresses are this deployment's own, and how are they kept from a model?

Only what the deployment itself names is known: its stores, its sockets, its nodes, and what it
lists besides. Nothing is guessed about the world outside. A name that no sentence would have
(`db1`, `db.internal`, `10.0.0.5`) is taken out wherever it stands; one that is an ordinary word
(`postgres`) only where it stands as an address. `localhost` and its addresses stay: they mean
whoever reads them.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import re2  # type: ignore[import-untyped]

HIDDEN: Final = "[internal host]"
MAX_NAMES: Final = 256
MAX_NAME: Final = 253

_NAME: Final = re.compile(r"\.?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_-]{1,63}\.?")
_PATH: Final = re.compile(r"/[\x21-\x7e]{3,}")
_ORDINARY: Final = re.compile(r"[a-z]+|.{1,2}", re.DOTALL)
_LOOPBACK: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
# Set aside by the standards for networks of one's own.
_NEVER_PUBLIC: Final = (".internal", ".local", ".home.arpa")
# Of a key that says that its value is a host.
_SAYS_HOST: Final = re.compile(r"(?:host|host_?name|server|node|address|addr|endpoint)$", re.I)
# A letter or digit before a name is no part of it where it ends an escape: of an address (`%2F`),
# of a text within a text (`\\n`, `\\u0022`), or of a colour on a terminal.
_HEX: Final = "[0-9A-Fa-f]"
_COLOURS: Final = "|".join(rf"(?<=\x1b\[[0-9;]{{{count}}}m)" for count in range(9))
_CODES: Final = "|".join(
    rf"(?<={start}{_HEX}{{{count}}})"
    for start, count in (("%", 2), ("%25", 2), (r"\\x", 2), (r"\\u", 4))
)
_ESCAPE: Final = rf"(?<=\\[abefnrtv0])|(?<=m)(?:{_COLOURS})|(?<={_HEX}{_HEX})(?:{_CODES})"
_SIDE: Final = rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPE})"
_BEFORE_4: Final = rf"(?:(?<![0-9A-Za-z])(?<![0-9]\.)|{_ESCAPE})"
_AFTER_4: Final = r"(?![0-9A-Za-z])(?!\.[0-9])"
_VERSION_4: Final = re.compile(rf"{_BEFORE_4}[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}{_AFTER_4}")
_BEFORE_6: Final = rf"(?:(?<![0-9A-Za-z:])|{_ESCAPE})"
_AFTER_6: Final = r"(?![0-9A-Za-z:])"
_GROUP: Final = r"[0-9A-Fa-f]{0,4}"
_COLON: Final = "(?::|%3[Aa])"
_ESCAPED_COLON: Final = re.compile("%3[Aa]")
# It may end as an address of version 4, and name the network card behind a percent sign.
_VERSION_6: Final = re.compile(
    # Its colons are all plain or all escaped: an escaped one after plain ones begins a port.
    rf"{_BEFORE_6}((?:{_GROUP}(?::{_GROUP}){{2,8}}|{_GROUP}(?:%3[Aa]{_GROUP}){{2,8}})"
    rf"(?:(?:\.[0-9]{{1,3}}){{3}})?)"
    rf"(?:%(?:25)?[A-Za-z][0-9A-Za-z_-]{{0,14}})?{_AFTER_6}"
)

# Whatever holds an address holds this, and it is found without going back.
_MAYBE: Final = re2.compile(
    rf"[0-9]\.[0-9]{{1,3}}\.[0-9]{{1,3}}\.[0-9]|{_COLON}[0-9A-Fa-f]{{0,4}}{_COLON}"
)

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_END: Final = r"(?![A-Za-z0-9_-])"
_BELOW: Final = r"(?:[A-Za-z0-9_-]{1,63}\.){0,8}"


class BadHost(ValueError):
    """An entry that is neither a host name, a suffix, an address nor a block of addresses."""


class InternalHosts:
    """The names and addresses of one deployment. An entry is a host name, a suffix that begins with
    a point, an address, a block of addresses, or the path of a socket.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        names: set[str] = set()
        words: set[str] = set()
        paths: set[str] = set()
        addresses: set[_Address] = set()
        blocks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in entries:
            plain = entry.strip().lower().strip("[]")
            if _is_loopback(plain):
                continue
            if block := _block(plain):
                if block.num_addresses == 1:
                    addresses.update(_meant(block.network_address))
                else:
                    blocks.append(block)
            elif entry.startswith("/") and _PATH.fullmatch(entry):
                paths.add(entry)
            elif len(plain) > MAX_NAME or not _NAME.fullmatch(plain):
                raise BadHost(
                    f"{entry[:80]!r} is no host name, no suffix that begins with a point,"
                    " no address and no block of addresses."
                )
            elif not plain.startswith(".") and _ORDINARY.fullmatch(plain.rstrip(".")):
                words.add(plain.rstrip("."))
            else:
                names.add(plain.strip("."))
        if len(names) + len(words) + len(paths) + len(addresses) + len(blocks) > MAX_NAMES:
            raise BadHost(f"There are at most {MAX_NAMES} internal hosts.")
        self._words = frozenset(words)
        self._addresses = frozenset(addresses)
        self._blocks = tuple(blocks)
        self._needles = tuple({*names, *words, *(path.lower() for path in paths)})
        self._patterns = tuple(_patterns(names, words, paths))

    def occur_in(self, text: str) -> bool:
        """Say whether anything internal may stand in a text; cheap, and never wrongly no."""
        if self._needles:
            lowered = text.lower()
            if any(needle in lowered for needle in self._needles):
                return True
        if not (self._addresses or self._blocks):
            return False
        return _MAYBE.search(text) is not None

    def hide(self, text: str) -> str:
        """Return a text without what is internal."""
        if not self.occur_in(text):
            return text
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        if self._addresses or self._blocks:
            text = _VERSION_4.sub(self._judged, text)
            text = _VERSION_6.sub(self._judged, text)
        return text

    def hidden(self, value: Any) -> Any:
        """Return a JSON value without what is internal, in its keys as well."""
        if not (self._needles or self._addresses or self._blocks):
            return value
        # One look at the whole text: nearly every value has nothing of it anywhere.
        if not self.occur_in(json.dumps(value, ensure_ascii=False)):
            return value
        return self._hidden(value, "")

    def _hidden(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            if value.lower() in self._words and _SAYS_HOST.search(key):
                return HIDDEN
            return self.hide(value)
        if isinstance(value, list):
            return [self._hidden(inner, key) for inner in value]
        if not isinstance(value, dict):
            return value
        kept: dict[str, Any] = {}
        for name, inner in value.items():
            shown = plain = self.hide(name)
            # Two names that are both hidden must not cost one of their values.
            count = 1
            while shown in kept or (shown != name and shown in value):
                count += 1
                shown = f"{plain} {count}"
            kept[shown] = self._hidden(inner, name)
        return kept

    def _judged(self, found: re.Match[str]) -> str:
        # Of one address there are many spellings, so what could be one is read and compared.
        try:
            spelt = _ESCAPED_COLON.sub(":", found.group(found.lastindex or 0))
            address = ipaddress.ip_address(spelt)
        except ValueError:
            return found.group()
        for one in _meant(address):
            if one in self._addresses or any(one in block for block in self._blocks):
                return HIDDEN
        return found.group()


def never_public(host: str) -> bool:
    """Say whether a host in our own settings cannot be a place that the world knows."""
    plain = host.lower().strip("[]").rstrip(".")
    try:
        return not ipaddress.ip_address(plain).is_global
    except ValueError:
        return "." not in plain or plain.endswith(_NEVER_PUBLIC)


def _is_loopback(plain: str) -> bool:
    if not plain or plain in _LOOPBACK or plain.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _meant(address: _Address) -> tuple[_Address, ...]:
    """Return an address, and the one of version 4 that it stands for where it does."""
    mapped = getattr(address, "ipv4_mapped", None)
    return (address,) if mapped is None else (address, mapped)


def _block(plain: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(plain, strict=False)
    except ValueError:
        return None


def _any(texts: set[str]) -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=lambda one: (-len(one), one)))


def _patterns(names: set[str], words: set[str], paths: set[str]) -> Iterator[re.Pattern[str]]:
    flags = re.ASCII | re.IGNORECASE
    if paths:
        yield re.compile(rf"(?:{_any(paths)}){_END}")
    if names:
        yield re.compile(rf"{_SIDE}{_BELOW}(?:{_any(names)}){_END}", flags)
    if words:
        one = rf"(?:{_any(words)})"
        # As a part of an address, with a port, or after a word that says that a host follows.
        leads = (
            "://", "@", "host=", 'host "', "host '", 'at "', "at '",
            "%3a%2f%2f", ":%2f%2f", "%40", "host%3d", r"\\/\\/", r'host \\"', r'at \\"',
        )  # fmt: skip
        yield re.compile("|".join(rf"(?<={lead}){one}{_END}" for lead in leads), flags)
        yield re.compile(rf"{_SIDE}{one}(?=(?::|%3a)[0-9]{{1,5}}(?![0-9]))", flags)


NO_HOSTS: Final = InternalHosts()
