"""Names and addresses of the deployment's own, kept out of whatever a model reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.internalhosts import HIDDEN, NO_HOSTS, BadHost, InternalHosts, never_public
from apps.domain.projection import project
from apps.domain.tooling import Reason, ToolFailure, ToolOk
from tests.domain.test_projection import json_values, reader

HOSTS = InternalHosts(
    [
        "db.internal", "postgres", "kaizen-web-1", ".corp.example", "10.0.0.5", "10.20.0.0/16",
        "fd00::/8", "/run/kaizen/sandboxd.sock", "localhost", "127.0.0.1", "::1",
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to DB.Internal.", "no route to [internal host]."),
        ("replica.db.internal:5432", "[internal host]:5432"),
        ("postgresql://[redacted]@db.internal/x", "postgresql://[redacted]@[internal host]/x"),
        ("a.b.corp.example and corp.example", "[internal host] and [internal host]"),
        ("worker@kaizen-web-1 died", "worker@[internal host] died"),
        ("10.0.0.5, 10.0.0.50 and 110.0.0.5", "[internal host], 10.0.0.50 and 110.0.0.5"),
        ("v1 at 10.20.255.1:80", "v1 at [internal host]:80"),
        ("::ffff:10.20.0.1 and fd12::1", "::ffff:[internal host] and [internal host]"),
        ("connect /run/kaizen/sandboxd.sock: refused", "connect [internal host]: refused"),
        ("notdb.internal and mydb.internals", "notdb.internal and mydb.internals"),
        ("10.0.0.5.1 is a version", "10.0.0.5.1 is a version"),
        ("at 12:30:45 it was 10.30.0.1", "at 12:30:45 it was 10.30.0.1"),
        # What ends an escape is no part of the name behind it.
        ("?to=http%3A%2F%2Fdb.internal%3A5432", "?to=http%3A%2F%2F[internal host]%3A5432"),
        ("//fd00::1%3A443/, [fd12::1]%3a80", "//[internal host]%3A443/, [[internal host]]%3a80"),
        ("%252Fdb.internal, %2f10.0.0.5", "%252F[internal host], %2f[internal host]"),
        (r'{"error": "away:\n\tdb.internal"}', r'{"error": "away:\n\t[internal host]"}'),
        (r"\u0022kaizen-web-1\u0022", r"\u0022[internal host]\u0022"),
        (r"b'\x1710.20.1.2'", r"b'\x17[internal host]'"),
        (r"one\n10.0.0.5 two\nfd12::1", r"one\n[internal host] two\n[internal host]"),
        ("\x1b[31;1mdb.internal\x1b[0m", "\x1b[31;1m[internal host]\x1b[0m"),
        ("\x1b[m10.20.1.2\x1b[0m", "\x1b[m[internal host]\x1b[0m"),
        ("mdb.internal, Fdb.internal, 2F10.0.0.5", "mdb.internal, Fdb.internal, 2F10.0.0.5"),
    ],
)  # fmt: skip
def test_a_name_of_ours_is_hidden_and_others_stay(text: str, shown: str) -> None:
    assert HOSTS.hide(text) == shown


ALONE = InternalHosts(["2001:db8::7", "fe80::1", "10.0.0.5", "::ffff:192.0.2.9", "fd00::a00:7"])


@pytest.mark.parametrize(
    "spelt",
    [
        "2001:db8::7",
        "2001:DB8::7",
        "2001:0db8::7",
        "2001:db8:0:0:0:0:0:7",
        "2001:0db8:0000:0000:0000:0000:0000:0007",
        "2001:DB8:0::0:7",
        "2001:db8::0.0.0.7",
        "2001%3Adb8%3a%3A7",
        "fe80::1%eth0",
        "FE80::0001%25wlan0",
        "10.0.0.5",
        "::FFFF:a00:5",
        "0:0:0:0:0:ffff:0a00:0005",
        "192.0.2.9",
        "::ffff:c000:209",
        "fd00::10.0.0.7",
    ],
)
def test_an_address_is_hidden_however_it_is_spelt(spelt: str) -> None:
    for text in ("{}", "no route to {}.", "[{}]:5432", "http://[{}]/x", '{{"at": "{}"}}', "a {},"):
        assert ALONE.hide(text.format(spelt)) == text.format(HIDDEN)
    assert ALONE.hidden({spelt: [spelt]}) == {HIDDEN: [HIDDEN]}


@pytest.mark.parametrize(
    "text",
    [
        *("2001:db8::70", "2001:db8::7:1", "12001:db8::7", "fe80::12%eth0", "10.0.0.50", "::7"),
        *("12:30:45", "::ffff:a00:6", "std::7", "a::b::c", "1:2:3:4:5:6:7:8:9", "fd00::10.0.0.8"),
    ],
)
def test_an_address_of_others_stays(text: str) -> None:
    assert ALONE.hide(f"{text} and [{text}]") == f"{text} and [{text}]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Install postgres first; postgres is fine.", None),
        ("redis://postgres/0", "redis://[internal host]/0"),
        ("user@postgres", "user@[internal host]"),
        ("postgres:5432 refused", "[internal host]:5432 refused"),
        ('no server at "postgres"', 'no server at "[internal host]"'),
        ("dbname=x host=postgres", "dbname=x host=[internal host]"),
        ("postgres: a database", None),
        ("redis%3A%2F%2Fu%40postgres%2F0", "redis%3A%2F%2Fu%40[internal host]%2F0"),
        ("to=%2F%2Fpostgres%3A5432", "to=%2F%2F[internal host]%3A5432"),
        (r'{"e": "at \"postgres\""}', r'{"e": "at \"[internal host]\""}'),
        (r"line\npostgres:5432", r"line\n[internal host]:5432"),
        ("postgresql://example.org", None),
    ],
)  # fmt: skip
def test_an_ordinary_word_is_hidden_only_where_it_is_an_address(
    text: str, shown: str | None
) -> None:
    assert HOSTS.hide(text) == (text if shown is None else shown)


def test_a_word_is_the_host_where_its_key_says_so() -> None:
    value = {"host": "postgres", "name": "postgres", "db_server": ["Postgres"], "Hostname": "x"}
    assert HOSTS.hidden(value) == {
        "host": HIDDEN, "name": "postgres", "db_server": [HIDDEN], "Hostname": "x",
    }  # fmt: skip


def test_loopback_stays_for_it_means_whoever_reads_it() -> None:
    text = "curl http://localhost:8000 or http://127.0.0.1:8000 or http://[::1]:8000"
    assert HOSTS.hide(text) == text


def test_keys_are_hidden_too_and_no_value_is_lost() -> None:
    value = {"db.internal": 1, "x.corp.example": {"10.0.0.5": [True]}, HIDDEN: 3, "n": None}
    assert HOSTS.hidden(value) == {
        "[internal host] 2": 1, "[internal host] 3": {HIDDEN: [True]}, HIDDEN: 3, "n": None,
    }  # fmt: skip


def test_a_projection_hides_in_values_messages_details_and_saved_names() -> None:
    ok = project(
        ToolOk({"db.internal": "see 10.0.0.5"}, artifacts=("db.internal:1",)), reader(), hosts=HOSTS
    )
    failed = project(
        ToolFailure(
            Reason.EXECUTION_ERROR, "db.internal is away", details={"at": "db.internal"},
            saved=("db.internal.log",),
        ),
        reader(), hosts=HOSTS,
    )  # fmt: skip
    assert "db.internal" not in json.dumps([ok, failed])
    assert ok["value"] == {HIDDEN: "see [internal host]"}
    assert failed["message"] == "[internal host] is away"


def test_a_name_is_hidden_before_a_text_is_cut() -> None:
    text = "x" * 170 + " db.internal " + "y" * 40_000
    shown = project(ToolOk(text), reader(), hosts=HOSTS, max_chars=230)["value"]
    assert "db." not in shown


_sides = st.text(st.sampled_from(" \n,;:()[]<>\"'/=é"), min_size=1, max_size=5)


@given(
    st.lists(
        st.sampled_from(["db.internal", "KAIZEN-WEB-1", "a.corp.example", "10.0.0.5", "10.20.3.4"]),
        max_size=8,
    ),
    st.lists(_sides, min_size=9, max_size=9),
    st.booleans(),
)  # fmt: skip
def test_whatever_stands_around_a_name_it_does_not_get_through(
    names: list[str], sides: list[str], as_key: bool
) -> None:
    text = sides[0] + "".join(name + side for name, side in zip(names, sides[1:], strict=False))
    value: Any = {text: 1} if as_key else [{"deep": [text]}]
    shown = json.dumps(HOSTS.hidden(value), ensure_ascii=False).lower()
    assert not any(name.lower() in shown for name in names)


@given(json_values)
def test_a_value_without_such_a_name_is_left_as_it_is(value: Any) -> None:
    hosts = InternalHosts(["db1.never.example", "neverword"])
    assert repr(hosts.hidden(value)) == repr(value)
    assert NO_HOSTS.hidden(value) is value


@pytest.mark.parametrize(
    "piece", ["a.", "db.interna", "10.20.", "postgres", "1:", "db.internal.", "-", "a"]
)
def test_a_long_text_made_to_be_slow_is_read_in_one_go(piece: str) -> None:
    # An engine that goes back over its own steps would still be at it.
    text = piece * (300_000 // len(piece))
    assert HOSTS.hide(text + " db.internal").endswith(HIDDEN)


@pytest.mark.parametrize("entry", ["", "localhost", "127.0.0.1", "::1", "0.0.0.0"])  # noqa: S104
def test_loopback_and_nothing_are_no_hosts(entry: str) -> None:
    assert not InternalHosts([entry]).occur_in("localhost 127.0.0.1 ::1 0.0.0.0")


@pytest.mark.parametrize("entry", ["a b", "http://x", "x" * 300, "..", "a/b", "/a\nb", "*.corp"])
def test_an_entry_that_names_nothing_is_refused(entry: str) -> None:
    with pytest.raises(BadHost):
        InternalHosts([entry])


def test_what_cannot_be_public_is_known_by_the_standards_alone() -> None:
    ours = ["models.internal", "gpu", "10.1.1.1", "gpu.local", "[fd00::1]"]
    assert all(never_public(host) for host in ours)
    theirs = ["api.openai.com", "8.8.8.8", "internal.example.com"]
    assert not any(never_public(host) for host in theirs)
