"""Names, ports and addresses: what may be reached, to the letter."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.egress import (
    NO_NETWORK,
    PUBLIC_NETWORK,
    BadNetwork,
    Denied,
    HostRule,
    Network,
    NetworkKind,
    address_kind,
    allowlist,
    canonical_host,
    checked_addresses,
    network_fields,
    network_of,
    read_blocks,
    read_connect,
    read_network,
)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("a-b.c1.example", "a-b.c1.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        # Wide letters and the other full stops are the same name.
        ("ｅｘａｍｐｌｅ。org", "example.org"),
        (f"{'a' * 63}.org", f"{'a' * 63}.org"),
    ],
)
def test_a_host_name_has_one_plain_form(written: str, plain: str) -> None:
    assert canonical_host(written) == plain
    assert canonical_host(plain) == plain


@pytest.mark.parametrize(
    "written",
    [
        "", ".", "localhost", "org", "example..org", ".example.org", "example.org..",
        "-a.example.org", "a-.example.org", "a_b.example.org", "a b.example", "a.example\n",
        "a.example\x00", "user@example.org", "example.org:443", "[::1]", "::1", "fe80::1%eth0",
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0x0.0x0.0x1", "0177.0.0.1",
        "1.2.3.0x4", "example.1", "example.0xff", "１２７.０.０.１", "①.example.②",
        f"{'a' * 64}.org", ".".join(["a" * 60] * 5), "straße.example", "a\u200db.example",
        "*.example.org", "a%00.example.org", "a/b.example.org", "a\\b.example", "☃.1",
    ],
)  # fmt: skip
def test_what_is_no_host_name_is_refused(written: str) -> None:
    with pytest.raises(BadNetwork):
        canonical_host(written)
    with pytest.raises(Denied, match="host name"):
        PUBLIC_NETWORK.check(written, 443)


@given(st.text(max_size=80))
def test_whatever_passes_as_a_name_is_stable_and_cannot_be_read_as_an_address(text: str) -> None:
    try:
        plain = canonical_host(text)
    except BadNetwork:
        return
    assert canonical_host(plain) == plain
    assert plain.isascii()
    assert "." in plain
    assert plain.rpartition(".")[2][0].isalpha()
    with pytest.raises(ValueError, match="does not appear"):
        ipaddress.ip_address(plain)


LISTED = allowlist(["api.example.org", "*.cdn.example.org", "git.example.org:22"])


@pytest.mark.parametrize(
    ("host", "port", "code"),
    [
        ("api.example.org", 443, ""),
        ("API.example.org.", 443, ""),
        ("a.cdn.example.org", 443, ""),
        ("git.example.org", 22, ""),
        ("other.example.org", 443, "host_not_listed"),
        ("sub.api.example.org", 443, "host_not_listed"),
        ("evilapi.example.org", 443, "host_not_listed"),
        ("api.example.org.evil.example", 443, "host_not_listed"),
        ("cdn.example.org", 443, "host_not_listed"),
        ("a.b.cdn.example.org", 443, "host_not_listed"),
        ("acdn.example.org", 443, "host_not_listed"),
        ("api.example.org", 22, "port_not_listed"),
        ("api.example.org", 80, "port_not_listed"),
        ("git.example.org", 443, "port_not_listed"),
        ("api.example.org", 0, "bad_port"),
        ("api.example.org", 99999, "bad_port"),
        ("127.0.0.1", 443, "bad_host"),
    ],
)
def test_an_allowlist_matches_exactly_or_one_label(host: str, port: int, code: str) -> None:
    if not code:
        assert LISTED.check(host, port) == host.lower().removesuffix(".")
        return
    with pytest.raises(Denied) as denied:
        LISTED.check(host, port)
    assert denied.value.code == code


def test_no_network_lets_nothing_through() -> None:
    assert not NO_NETWORK
    with pytest.raises(Denied):
        NO_NETWORK.check("example.org", 443)


@given(st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8}){1,4}", fullmatch=True))
def test_a_wildcard_stands_for_one_label_and_nothing_else(host: str) -> None:
    rule = HostRule("*.example.org")
    assert rule.names(f"{host.partition('.')[0]}.example.org")
    assert not rule.names(f"{host}.example.org")
    assert not rule.names("example.org")


@pytest.mark.parametrize(
    "hosts",
    [
        [], ["*"], ["*.org"], ["a.*.org"], ["*.*.example.org"], ["https://example.org"],
        ["example.org/path"], ["example.org:"], ["example.org:0"], ["example.org:65536"],
        ["example.org:0443"], ["example.org:443:443"], ["10.0.0.1"], ["[::1]:443"],
        [f"h{n}.example.org" for n in range(257)],
        [f"example.org:{n}" for n in range(1, 18)],
    ],
)  # fmt: skip
def test_an_allowlist_that_cannot_hold_is_refused(hosts: list[str]) -> None:
    with pytest.raises(BadNetwork):
        allowlist(hosts)


def test_ports_of_one_host_come_together() -> None:
    found = allowlist(["example.org", "Example.org.:8443", "example.org:8443"])
    assert found.hosts == (HostRule("example.org", (443, 8443)),)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        (None, NetworkKind.NONE),
        ({"kind": "none"}, NetworkKind.NONE),
        ({"kind": "unrestricted"}, NetworkKind.PUBLIC),
        ({"kind": "allowlist", "hosts": ["example.org"]}, NetworkKind.ALLOWLIST),
    ],
)
def test_a_definition_asks_for_one_of_three_networks(declared: dict, kind: NetworkKind) -> None:
    assert network_of(declared).kind is kind


@pytest.mark.parametrize(
    "declared", [{}, {"kind": "all"}, {"kind": "allowlist"}, {"kind": "allowlist", "hosts": []}]
)
def test_a_network_that_is_none_of_these_is_refused(declared: dict) -> None:
    with pytest.raises(BadNetwork):
        network_of(declared)


@pytest.mark.parametrize("network", [NO_NETWORK, PUBLIC_NETWORK, LISTED])
def test_a_policy_travels_unchanged(network: Network) -> None:
    fields = network_fields(network)
    assert isinstance(fields, dict)
    assert read_network(fields) == network


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"kind": "none"}, {"kind": "none", "hosts": [["example.org", [443]]]},
        {"kind": "allowlist", "hosts": []}, {"kind": "x", "hosts": []},
        {"kind": [], "hosts": []}, {"kind": "allowlist", "hosts": ["example.org"]},
        {"kind": "allowlist", "hosts": [["Example.org", [443]]]},
        {"kind": "allowlist", "hosts": [["example.org", [True]]]},
        {"kind": "allowlist", "hosts": [["example.org", ["443"]]]},
        {"kind": "allowlist", "hosts": [["example.org", [443, 443]]]},
        {"kind": "allowlist", "hosts": [["example.org", []]]},
        {"kind": "allowlist", "hosts": [[1, [443]]]},
        {"kind": "none", "hosts": [], "more": 1},
    ],
)  # fmt: skip
def test_a_policy_that_nobody_vouches_for_is_read_strictly(fields: dict) -> None:
    with pytest.raises(BadNetwork):
        read_network(fields)


KINDS = [
    ("0.0.0.0", "unspecified"), ("0.255.255.255", "unspecified"), ("1.0.0.0", "public"),  # noqa: S104 - an address to judge
    ("9.255.255.255", "public"), ("10.0.0.0", "private"), ("10.255.255.255", "private"),
    ("11.0.0.0", "public"), ("100.63.255.255", "public"), ("100.64.0.0", "carrier_nat"),
    ("100.100.100.200", "metadata"), ("100.127.255.255", "carrier_nat"), ("100.128.0.0", "public"),
    ("126.255.255.255", "public"), ("127.0.0.1", "loopback"), ("127.255.255.255", "loopback"),
    ("128.0.0.0", "public"), ("168.63.129.15", "public"), ("168.63.129.16", "metadata"),
    ("169.253.255.255", "public"), ("169.254.0.0", "link_local"), ("169.254.169.254", "metadata"),
    ("169.255.0.0", "public"), ("172.15.255.255", "public"), ("172.16.0.0", "private"),
    ("172.31.255.255", "private"), ("172.32.0.0", "public"), ("191.255.255.255", "public"),
    ("192.0.0.0", "reserved"), ("192.0.0.192", "metadata"), ("192.0.1.0", "public"),
    ("192.0.2.1", "documentation"), ("192.88.99.1", "6to4"), ("192.167.255.255", "public"),
    ("192.168.0.0", "private"), ("192.169.0.0", "public"), ("198.17.255.255", "public"),
    ("198.18.0.0", "benchmarking"), ("198.19.255.255", "benchmarking"), ("198.20.0.0", "public"),
    ("198.51.100.1", "documentation"), ("203.0.113.1", "documentation"),
    ("223.255.255.255", "public"), ("224.0.0.0", "multicast"), ("239.255.255.255", "multicast"),
    ("240.0.0.0", "reserved"), ("255.255.255.255", "reserved"),
    ("::", "unspecified"), ("::1", "loopback"), ("::2", "ipv4_compatible"),
    ("::127.0.0.1", "ipv4_compatible"), ("::ffff:127.0.0.1", "ipv4_mapped"),
    ("::ffff:8.8.8.8", "ipv4_mapped"), ("::ffff:0:8.8.8.8", "ipv4_translated"),
    ("64:ff9b::a00:1", "nat64"), ("64:ff9b:1::1", "nat64"), ("64:ff9b:2::1", "reserved"),
    ("100::1", "discard"), ("1fff:ffff::1", "reserved"), ("2000::1", "public"),
    ("2001::1", "teredo"), ("2001:1::1", "reserved"), ("2001:1ff:ffff::1", "reserved"),
    ("2001:200::1", "public"), ("2001:db8::1", "documentation"), ("2001:db9::1", "public"),
    ("2002::1", "6to4"), ("2002:7f00:1::", "6to4"), ("2003::1", "public"),
    ("2606:4700::1", "public"), ("3ffe::1", "reserved"), ("3fff:fff::1", "documentation"),
    ("3fff:1000::1", "public"), ("4000::1", "reserved"), ("5f00::1", "reserved"),
    ("fc00::1", "unique_local"), ("fd00:ec2::254", "unique_local"), ("fe80::1", "link_local"),
    ("fe80::1%eth0", "link_local"), ("2000::1%1", "link_local"), ("fec0::1", "site_local"),
    ("ff02::1", "multicast"),
]  # fmt: skip


@pytest.mark.parametrize(("address", "kind"), KINDS)
def test_every_address_is_public_or_has_a_word_for_what_it_is(address: str, kind: str) -> None:
    assert address_kind(ipaddress.ip_address(address)) == kind


@given(st.ip_addresses())
def test_nothing_that_the_standard_library_calls_private_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address_kind(address) == "public":
        assert not address.is_private
        assert not address.is_loopback
        assert not address.is_link_local
        assert not address.is_multicast
        assert not address.is_reserved
        assert not address.is_unspecified


@given(st.ip_addresses(v=4))
def test_no_form_of_an_older_address_inside_a_newer_one_is_public(
    address: ipaddress.IPv4Address,
) -> None:
    number = int(address)
    for prefix, shift in ((0xFFFF << 32, 0), (0x64FF9B << 96, 0), (0x2002 << 112, 80), (0, 0)):
        wrapped = ipaddress.IPv6Address(prefix | number << shift)
        assert address_kind(wrapped) != "public"


def test_one_bad_answer_refuses_all() -> None:
    assert [str(one) for one in checked_addresses("a.example", ["8.8.8.8", "2606:4700::1"])] == [
        "8.8.8.8",
        "2606:4700::1",
    ]
    for answers in (["8.8.8.8", "10.0.0.1"], ["::ffff:8.8.8.8"], ["127.0.0.1"]):
        with pytest.raises(Denied) as denied:
            checked_addresses("a.example", answers)
        assert denied.value.code == "address_not_public"
    for answers in ([], ["nonsense"], [f"8.8.8.{n}" for n in range(33)]):
        with pytest.raises(Denied):
            checked_addresses("a.example", answers)


def test_an_exemption_holds_for_its_own_block_only() -> None:
    exempt = read_blocks(["10.20.0.0/16", "fd00:1::/32"])
    assert checked_addresses("a.example", ["10.20.3.4", "fd00:1::5"], exempt)
    for answer in ("10.21.0.1", "127.0.0.1", "fd00:2::1", "::ffff:10.20.3.4"):
        with pytest.raises(Denied):
            checked_addresses("a.example", [answer], exempt)
    for text in ("10.20.0.1/16", "nonsense", "10.0.0.0/33"):
        with pytest.raises(BadNetwork):
            read_blocks([text])


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        (b"CONNECT example.org:443 HTTP/1.1", ("example.org", 443)),
        (b"CONNECT Example.org.:8443 HTTP/1.0\r\nHost: x\r\nX-Any: b", ("Example.org.", 8443)),
    ],
)
def test_a_request_for_a_connection_is_read(head: bytes, asked: tuple[str, int]) -> None:
    assert read_connect(head) == asked


@pytest.mark.parametrize(
    "head",
    [
        b"", b"GET http://example.org/ HTTP/1.1", b"POST / HTTP/1.1",
        b"connect example.org:443 HTTP/1.1", b"CONNECT example.org HTTP/1.1",
        b"CONNECT  example.org:443 HTTP/1.1", b"CONNECT example.org:443  HTTP/1.1",
        b"CONNECT user@example.org:443 HTTP/1.1", b"CONNECT example.org:443 HTTP/2",
        b"CONNECT example.org:0 HTTP/1.1", b"CONNECT example.org:99999 HTTP/1.1",
        b"CONNECT example.org:123456 HTTP/1.1", b"CONNECT [::1]:443 HTTP/1.1",
        b"CONNECT example.org:443 HTTP/1.1\nHost: x", b"CONNECT a.example:443\r\n HTTP/1.1",
        b"CONNECT example.org:443 HTTP/1.1\r\n folded", b"CONNECT example.org:443 HTTP/1.1\r\nbad",
        b"CONNECT example.org:443 HTTP/1.1\r\nA: b\nc", b"CONNECT b\xc3\xbc.org:443 HTTP/1.1",
        b"CONNECT http://example.org:443 HTTP/1.1", b"CONNECT example.org:443 HTTP/1.1\r\nA: \x00",
    ],
)  # fmt: skip
def test_anything_else_is_no_request(head: bytes) -> None:
    with pytest.raises(Denied):
        read_connect(head)
