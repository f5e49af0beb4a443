"""Where may a program or a tool reach to outside? Names, ports and addresses, judged the same.

A name is judged first, as text: it has to be an ordinary host name that the policy lists. Then its
addresses are: all of them have to be public, since whoever owns a name may answer with ours.
Whoever connects uses the very address that was judged here, so that a second answer never counts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apps.domain.wire import JsonValue

MAX_HOSTS: Final = 256
MAX_PORTS: Final = 16
MAX_HOST: Final = 253
MAX_ANSWERS: Final = 32
MAX_EXEMPT: Final = 64
HTTPS: Final = 443

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressBlock = ipaddress.IPv4Network | ipaddress.IPv6Network

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# The last label begins with a letter: "10.0.0.1", "0x7f.1" and "1.2.3.0x4" are addresses.
_HOST_NAME: Final = re.compile(rf"(?:{_LABEL}\.)+(?=[a-z]){_LABEL}\Z")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}\Z")
# Two standards write these letters as different names, so nobody could tell which one is meant.
_AMBIGUOUS: Final = frozenset("ßς\u200c\u200d")
_CONNECT: Final = re.compile(rb"CONNECT ([A-Za-z0-9.-]{1,254}):([0-9]{1,5}) HTTP/1\.[01]\Z")
_HEADER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}:[\t\x20-\x7e\x80-\xff]*\Z")


class BadNetwork(ValueError):
    """A network policy, name or address that cannot hold; the sentence may be shown."""


class Denied(ValueError):
    """A connection that is not made; `code` is one closed word and the sentence may be shown."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class NetworkKind(StrEnum):
    """How far a program may reach."""

    NONE = "none"
    ALLOWLIST = "allowlist"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class HostRule:
    """One line of an allowlist: a host, or `*.` and a domain for one label, and its ports."""

    host: str
    ports: tuple[int, ...] = (HTTPS,)

    def __post_init__(self) -> None:
        bare = self.host.removeprefix("*.")
        if canonical_host(bare) != bare:
            raise BadNetwork(f"{self.host[:80]!r} is not written as a plain host name.")
        if not 1 <= len(self.ports) <= MAX_PORTS or len(set(self.ports)) != len(self.ports):
            raise BadNetwork(f"A host has between 1 and {MAX_PORTS} different ports.")
        if not all(type(port) is int and 0 < port < 65536 for port in self.ports):
            raise BadNetwork("A port lies between 1 and 65535.")

    def names(self, host: str) -> bool:
        """Tell whether a canonical host is the one of this line."""
        if not self.host.startswith("*."):
            return host == self.host
        first, _, rest = host.partition(".")
        return bool(first) and rest == self.host[2:]

    def __str__(self) -> str:
        if self.ports == (HTTPS,):
            return self.host
        return " ".join(f"{self.host}:{port}" for port in self.ports)


@dataclass(frozen=True, slots=True)
class Network:
    """What one call may reach: nothing, the listed hosts, or whatever is public."""

    kind: NetworkKind = NetworkKind.NONE
    hosts: tuple[HostRule, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind is NetworkKind.ALLOWLIST) != bool(self.hosts):
            raise BadNetwork("An allowlist has hosts, and nothing else has.")
        if len(self.hosts) > MAX_HOSTS:
            raise BadNetwork(f"An allowlist has at most {MAX_HOSTS} hosts.")

    def __bool__(self) -> bool:
        return self.kind is not NetworkKind.NONE

    def check(self, host: str, port: int) -> str:
        """Return the canonical host of a connection that may be tried, or raise Denied."""
        try:
            name = canonical_host(host)
        except BadNetwork as problem:
            raise Denied("bad_host", str(problem)) from problem
        if not 0 < port < 65536:
            raise Denied("bad_port", "A port lies between 1 and 65535.")
        if self.kind is NetworkKind.PUBLIC:
            return name
        rules = [rule for rule in self.hosts if rule.names(name)]
        if not rules:
            raise Denied("host_not_listed", f"{name} is not a host that this call may reach.")
        if not any(port in rule.ports for rule in rules):
            raise Denied("port_not_listed", f"{name} may not be reached on port {port}.")
        return name


NO_NETWORK: Final = Network()
PUBLIC_NETWORK: Final = Network(NetworkKind.PUBLIC)


def allowlist(hosts: Iterable[str]) -> Network:
    """Return the policy that reaches these hosts only: `host`, `*.domain`, `host:port`."""
    ports: dict[str, list[int]] = {}
    for text in hosts:
        host, port = _host_and_port(text)
        listed = ports.setdefault(host, [])
        if port not in listed:
            listed.append(port)
        if len(ports) > MAX_HOSTS:
            raise BadNetwork(f"An allowlist has at most {MAX_HOSTS} hosts.")
    rules = tuple(HostRule(host, tuple(listed)) for host, listed in ports.items())
    return Network(NetworkKind.ALLOWLIST, rules)


def network_of(declared: Mapping[str, object] | None) -> Network:
    """Return the policy that a tool definition's `network` field asks for."""
    kind = "none" if declared is None else declared.get("kind")
    if declared is None or kind == "none":
        return NO_NETWORK
    if kind == "unrestricted":
        return PUBLIC_NETWORK
    hosts = declared.get("hosts")
    if kind != "allowlist" or not isinstance(hosts, list):
        raise BadNetwork("A network is none, unrestricted, or an allowlist with hosts.")
    return allowlist(str(host) for host in hosts)


def _host_and_port(text: str) -> tuple[str, int]:
    bare, colon, port = text.partition(":")
    if colon and not _PORT.match(port):
        raise BadNetwork(f"{text[:80]!r} does not end in a port.")
    star = "*." if bare.startswith("*.") else ""
    return star + canonical_host(bare.removeprefix("*.")), int(port) if colon else HTTPS


def canonical_host(text: str) -> str:
    """Return a host name in its one plain form, or refuse what is none with BadNetwork."""
    if not text or len(text) > MAX_HOST + 1 or not _AMBIGUOUS.isdisjoint(text):
        raise BadNetwork(f"{text[:80]!r} is not a host name.")
    try:
        # The mapping comes first: other scripts have digits and dots of their own.
        plain = text.lower() if text.isascii() else text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadNetwork(f"{text[:80]!r} is not a host name.") from None
    plain = plain.removesuffix(".")
    if len(plain) > MAX_HOST or not _HOST_NAME.match(plain):
        raise BadNetwork(
            f"{text[:80]!r} is not a host name: it has letters, digits and hyphens, a dot, and no"
            " number at its end."
        )
    return plain


# What is not public, the narrower block before the wider one; the word is what is told of it.
_BLOCKS_4: Final = tuple(
    (ipaddress.IPv4Network(block), word)
    for block, word in (
        ("169.254.169.254/32", "metadata"),
        ("100.100.100.200/32", "metadata"),
        ("192.0.0.192/32", "metadata"),
        # A platform's own services, on an address that looks public.
        ("168.63.129.16/32", "metadata"),
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier_nat"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link_local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_BLOCKS_6: Final = tuple(
    (ipaddress.IPv6Network(block), word)
    for block, word in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "ipv4_mapped"),
        ("::/96", "ipv4_compatible"),
        ("::ffff:0:0:0/96", "ipv4_translated"),
        ("64:ff9b::/96", "nat64"),
        ("64:ff9b:1::/48", "nat64"),
        ("100::/64", "discard"),
        ("2001::/32", "teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3ffe::/16", "reserved"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "unique_local"),
        ("fe80::/10", "link_local"),
        ("fec0::/10", "site_local"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")


def address_kind(address: Address) -> str:
    """Return `public`, or the one word that says what else an address is."""
    if isinstance(address, ipaddress.IPv4Address):
        return next((word for block, word in _BLOCKS_4 if address in block), "public")
    if address.scope_id is not None:
        return "link_local"
    found = next((word for block, word in _BLOCKS_6 if address in block), None)
    return found or ("public" if address in _GLOBAL_6 else "reserved")


def read_blocks(texts: Sequence[str]) -> tuple[AddressBlock, ...]:
    """Read the address blocks that the operator exempts, such as 10.20.0.0/16."""
    if len(texts) > MAX_EXEMPT:
        raise BadNetwork(f"At most {MAX_EXEMPT} address blocks can be exempted.")
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as problem:
        raise BadNetwork(f"An exempted address block does not hold: {problem}.") from problem


def checked_addresses(
    host: str, answers: Iterable[str], exempt: Sequence[AddressBlock] = ()
) -> tuple[Address, ...]:
    """Return a name's addresses where every one may be connected to, or raise Denied."""
    found: dict[Address, None] = {}
    for answer in answers:
        try:
            found[ipaddress.ip_address(answer)] = None
        except ValueError:
            raise Denied("bad_answer", f"{host} was answered with no address.") from None
        if len(found) > MAX_ANSWERS:
            raise Denied("bad_answer", f"{host} has more than {MAX_ANSWERS} addresses.")
    if not found:
        raise Denied("no_address", f"{host} has no address.")
    for address in found:
        kind = address_kind(address)
        if kind != "public" and not any(
            address.version == block.version and address in block for block in exempt
        ):
            raise Denied("address_not_public", f"{host} leads to an address that is {kind}.")
    return tuple(found)


def read_connect(head: bytes) -> tuple[str, int]:
    """Read the head of a proxy request, without its empty line; only CONNECT host:port is one."""
    lines = head.split(b"\r\n")
    asked = _CONNECT.match(lines[0])
    if asked is None or not all(_HEADER.match(line) for line in lines[1:]):
        raise Denied("bad_request", "Only CONNECT host:port is understood.")
    port = int(asked[2])
    if not 0 < port < 65536:
        raise Denied("bad_port", "A port lies between 1 and 65535.")
    return asked[1].decode("ascii"), port


def network_fields(network: Network) -> JsonValue:
    """Write a policy as plain JSON."""
    hosts: JsonValue = [[rule.host, list(rule.ports)] for rule in network.hosts]
    return {"kind": network.kind.value, "hosts": hosts}


def read_network(fields: Mapping[str, object]) -> Network:
    """Read a policy back from JSON that nobody vouches for, or raise BadNetwork."""
    hosts = fields.get("hosts")
    if set(fields) != {"kind", "hosts"} or not isinstance(hosts, list):
        raise BadNetwork("A network has a kind and hosts.")
    if fields["kind"] not in list(NetworkKind) or len(hosts) > MAX_HOSTS:
        raise BadNetwork("The network is of no known kind, or has too many hosts.")
    rules: list[HostRule] = []
    for row in hosts:
        match row:
            case [str(host), list(ports)]:
                rules.append(HostRule(host, tuple(ports)))
            case _:
                raise BadNetwork("A host of a network has a name and ports.")
    return Network(NetworkKind(str(fields["kind"])), tuple(rules))


@dataclass(frozen=True, slots=True)
class Crossing:
    """One connection that was tried: to where, and `allowed` or the word of the refusal."""

    host: str
    port: int
    address: str
    verdict: str
    received: int = 0
    sent: int = 0
