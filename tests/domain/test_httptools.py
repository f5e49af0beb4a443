"""A declared request goes where its declaration says, whatever its input holds."""

import copy
import time
import tracemalloc
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.httptools import BadRequest, HttpTool, http_tool, prepare, problems_of
from apps.domain.manifests import BadManifest, parse_manifest
from tests.domain.test_manifests import found_in

DEFINITION: dict[str, Any] = {
    "id": "notes.read",
    "description": "Reads a note of a book.",
    "version": "1.0.0",
    "mutating": False,
    "input": {
        "type": "object",
        "properties": {
            "book": {"type": "string"},
            "note": {"type": "integer"},
            "lang": {"type": "string"},
        },
        "required": ["book", "note"],
        "additionalProperties": False,
    },
    "output": {"type": "object"},
    "spec": {
        "kind": "http",
        "method": "GET",
        "urlTemplate": "https://api.example.org/v1/books/{book}/n{note}.json?view=full&lang={lang}",
        "headers": [{"name": "X-Client", "value": "kaizen"}],
    },
}


def declared(spec: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    found = {**copy.deepcopy(DEFINITION), **changes}
    found["spec"].update(spec or {})
    return found


def manifest(definition: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "notes", "version": "1.0.0", "ref": "notes@1.0.0", "format": "python",
        "tools": [{"definition": definition}],
    }  # fmt: skip


def tool(**changes: Any) -> HttpTool:
    return http_tool(declared(changes))


def test_a_declaration_says_method_origin_and_time() -> None:
    found = http_tool(DEFINITION)
    assert (found.method, found.origin, found.timeout_ms) == (
        "GET",
        "https://api.example.org",
        30_000,
    )
    assert found.parse_json
    assert (found.success[0], found.success[-1]) == (200, 299)


def test_such_a_tool_is_judged_as_one_that_reaches_outside() -> None:
    spec = parse_manifest(manifest(DEFINITION)).tools[0].specification()
    assert spec.reaches == ("https://api.example.org",)
    assert spec.outside_data
    assert not spec.uses_connection
    assert spec.timeout_s == 30


def test_values_of_the_input_fill_their_places_and_are_encoded() -> None:
    made = prepare(http_tool(DEFINITION), {"book": "a b&c?d#é", "note": 7, "lang": "de&x=1"})
    assert made.target == ("/v1/books/a%20b%26c%3Fd%23%C3%A9/n7.json?view=full&lang=de%26x%3D1")
    assert made.headers == (("X-Client", "kaizen"),)
    assert made.body == b""


def test_an_optional_value_that_is_absent_leaves_its_pair_out() -> None:
    assert prepare(http_tool(DEFINITION), {"book": "a", "note": 1}).target.endswith("?view=full")


@pytest.mark.parametrize(
    "value",
    [
        "", ".", "..", "../admin", "a/b", "a\\b", "..;x", "%2e%2e", "%2E%2E%2Fadmin", "..%2fadmin",
        "%252e%252e", "a%2Fb", "a%255cb", "\x00", "a\x00", None, ["a"], {"a": 1}, "\ud800",
    ],
)  # fmt: skip
def test_a_value_in_the_path_stays_in_its_segment(value: Any) -> None:
    found = tool(urlTemplate="https://api.example.org/v1/{book}/x")
    with pytest.raises(BadRequest):
        prepare(found, {"book": value, "note": 1})


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a b HTTP/1.1\r\n\r\nGET /evil"])
def test_no_value_ends_the_line_that_it_stands_in(value: str) -> None:
    found = tool(urlTemplate="https://api.example.org/v1?q={book}")
    made = prepare(found, {"book": value, "note": 1})
    assert made.target.isascii()
    assert not {"\r", "\n", " "} & set(made.target)


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_the_input_holds_the_address_keeps_its_parts(book: str, lang: str) -> None:
    try:
        made = prepare(http_tool(DEFINITION), {"book": book, "note": 1, "lang": lang})
    except BadRequest:
        return
    parts = urlsplit(f"https://api.example.org{made.target}")
    assert parts.hostname == "api.example.org"
    assert parts.fragment == ""
    segments = parts.path.split("/")
    assert segments[:3] == ["", "v1", "books"]
    assert segments[4:] == ["n1.json"]
    assert unquote(segments[3]) == book
    assert parts.query == f"view=full&lang={parts.query.partition('lang=')[2]}"
    assert unquote(parts.query.partition("lang=")[2]) == lang


@pytest.mark.parametrize(
    "template",
    [
        "ftp://api.example.org/", "//api.example.org/", "https://{book}/", "https://{book}.org/",
        "{book}", "https://api.example.org:{note}/", "https://user:pw@api.example.org/",
        "https://user@api.example.org/", "https://10.0.0.1/", "https://[::1]/", "https://localhost/",
        "https://2130706433/", "https://0x7f.1/", "https://api.example.org/#x",
        "https://api.example.org/../x", "https://api.example.org/%2e%2e/x",
        "https://api.example.org/a b", "https://api.example.org/é", "https://api.example.org\\@x/",
        "https://api.example.org/{unknown}", "https://api.example.org/{lang}",
        "https://api.example.org/?{book}=1", "https://api.example.org/?q=a{book}",
        "https://api.example.org/?q=1&", "https://api.example.org/\r\n", "https://api.example.org:99999/",
        "https://api.example.org/{book", "https://api.example.org/" + "a" * 5000, "http:/x", "",
    ],
)  # fmt: skip
def test_an_address_that_does_not_say_where_it_goes_is_refused(template: str) -> None:
    assert problems_of(declared({"urlTemplate": template}))
    with pytest.raises(BadRequest):
        http_tool(declared({"urlTemplate": template}))


@pytest.mark.parametrize(
    "header",
    [
        {"name": "Host", "value": "evil.example"}, {"name": "content-length", "value": "0"},
        {"name": "Transfer-Encoding", "value": "chunked"}, {"name": "Connection", "value": "close"},
        {"name": "Accept-Encoding", "value": "gzip"}, {"name": "Proxy-Authorization", "value": "x"},
        {"name": "Authorization", "value": "Bearer abc"}, {"name": "Cookie", "value": "a=b"},
        {"name": "X Bad", "value": "1"}, {"name": "X-Bad\r\nY", "value": "1"},
        {"name": "X-Bad", "value": "1\r\nY: 2"}, {"name": "X-Bad", "value": " 1"},
        {"name": "X-Bad", "value": "é"}, {"name": "X-Bad", "value": ""},
        {"name": "X-Bad", "value": "x" * 4097},
    ],
)  # fmt: skip
def test_a_header_that_is_ours_to_set_or_breaks_the_line_is_refused(header: dict) -> None:
    assert problems_of(declared({"headers": [header]}))


def test_a_header_is_set_once() -> None:
    twice = [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}]
    assert problems_of(declared({"headers": twice}))


SECRET = {"secretRef": {"envName": "NOTES_KEY", "name": "notes-key"}}


@pytest.mark.parametrize("declares", ["NOTES_KEY", "notes-key"])
def test_a_secret_is_declared_and_named_never_written(declares: str) -> None:
    found = declared(
        {"authorization": {"kind": "bearer", **SECRET}}, needsSpec={"secrets": {declares: {}}}
    )
    assert http_tool(found).secrets == ("notes-key",)
    undeclared = declared({"authorization": {"kind": "bearer", **SECRET}})
    assert ("spec.authorization.secretRef", "needsSpec.secrets does not declare it.") in (
        problems_of(undeclared)
    )


@pytest.mark.parametrize("name", ["Host", "Content-Type", "X-Client", "a b", "X\r\nY", "TE"])
def test_a_secret_stands_in_no_header_of_ours(name: str) -> None:
    found = declared(
        {"authorization": {"kind": "header", "headerName": name, **SECRET}},
        needsSpec={"secrets": {"notes-key": {}}},
    )
    assert problems_of(found)


def test_a_connection_makes_the_tool_one_that_acts_for_somebody() -> None:
    found = declared(
        {"authorization": {"kind": "connection", "connection": "mail"}},
        needsSpec={
            "connections": {"mail": {"app": "post", "permissions": ["read"], "as": "person"}}
        },
    )
    spec = parse_manifest(manifest(found)).tools[0].specification()
    assert spec.uses_connection
    assert not spec.parallel_safe


POST = {
    "method": "POST",
    "urlTemplate": "https://api.example.org/v1/books",
}


def test_the_whole_input_is_a_body_of_json() -> None:
    made = prepare(tool(**POST, requestBody={"kind": "json-input"}), {"book": "é", "note": 1})
    assert made.body == b'{"book": "\\u00e9", "note": 1}'
    assert ("Content-Type", "application/json") in made.headers


def test_an_input_passes_through_under_the_declared_type() -> None:
    headers = [{"name": "Content-Type", "value": "application/vnd.notes+json"}]
    found = tool(**POST, headers=headers, requestBody={"kind": "input-passthrough"})
    made = prepare(found, {"book": "a", "note": 1})
    assert made.body == b'{"book": "a", "note": 1}'
    assert dict(made.headers) == {"Content-Type": "application/vnd.notes+json"}


def test_a_text_is_filled_and_stays_json_where_it_is_json() -> None:
    body = {"kind": "text", "template": '{"title": "{book}", "n": {note}}'}
    plain = prepare(tool(**POST, requestBody=body), {"book": 'a"b', "note": 2})
    assert plain.body == b'{"title": "a"b", "n": 2}'
    assert ("Content-Type", "text/plain; charset=utf-8") in plain.headers
    headers = [{"name": "Content-Type", "value": "application/json"}]
    json_text = prepare(tool(**POST, requestBody=body, headers=headers), {"book": 'a"b', "note": 2})
    assert json_text.body == b'{"title": "a\\"b", "n": 2}'


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"requestBody": {"kind": "json-input"}}, {}),
        ({**POST, "requestBody": {"kind": "text", "template": "{lang}"}}, {}),
        ({**POST, "requestBody": {"kind": "text", "template": "{other}"}}, {}),
        (
            {**POST, "requestBody": {"kind": "json-input"},
             "headers": [{"name": "content-type", "value": "text/plain"}]}, {},
        ),
        ({"method": "DELETE"}, {}), ({"method": "PUT"}, {}), ({"method": "PATCH"}, {}),
        ({"timeoutMs": 240_001}, {}),
        ({}, {"network": {"kind": "none"}}),
        ({}, {"network": {"kind": "allowlist", "hosts": ["other.example.org"]}}),
        ({"urlTemplate": "https://api.example.org:8443/"},
         {"network": {"kind": "allowlist", "hosts": ["api.example.org"]}}),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(changes: dict, more: dict) -> None:
    assert problems_of(declared(changes, **more))


@pytest.mark.parametrize(
    "path", ["%2{book}F/{note}", "%{book}2f/{note}", "{note}/%{book}2F", "%/2f/{book}/{note}"]
)
def test_no_parameter_completes_a_sign_of_the_address(path: str) -> None:
    address = f"https://api.example.org/{path}"
    assert [field for field, _ in problems_of(declared({"urlTemplate": address}))] == [
        "spec.urlTemplate"
    ]


@pytest.mark.parametrize("value", ["%" + "25" * 400_000, "%2525" * 200_000, "x" * 1_000_000])
def test_a_long_value_is_refused_before_it_is_looked_into(value: str) -> None:
    begun = time.process_time()
    for field in ("book", "lang"):
        with pytest.raises(BadRequest, match="longer"):
            prepare(http_tool(DEFINITION), {"book": "a", "note": 1, field: value})
    assert time.process_time() - begun < 1


def test_a_value_in_a_form_adds_no_field_to_it() -> None:
    body = {"kind": "text", "template": "title={book}&n={note}"}
    kind = "Application/X-WWW-Form-Urlencoded; charset=utf-8"
    headers = [{"name": "Content-Type", "value": kind}]
    made = prepare(
        tool(**POST, requestBody=body, headers=headers), {"book": "a b&n=9&role=é+%", "note": 1}
    )
    assert parse_qsl(made.body.decode()) == [("title", "a b&n=9&role=é+%"), ("n", "1")]


def test_a_value_that_stands_often_is_not_multiplied_beyond_the_bound() -> None:
    body = {"kind": "text", "template": "{book}" * 2_000}
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match="longer"):
            prepare(tool(**POST, requestBody=body), {"book": "x" * 200_000, "note": 1})
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_body_and_an_address_are_bounded() -> None:
    with pytest.raises(BadRequest, match="longer"):
        prepare(http_tool(DEFINITION), {"book": "x" * 9000, "note": 1})
    big = tool(**POST, requestBody={"kind": "json-input"})
    with pytest.raises(BadRequest, match="longer"):
        prepare(big, {"book": "x" * (1024 * 1024), "note": 1})


def test_a_manifest_is_told_where_its_request_is_wrong() -> None:
    wrong = declared({"urlTemplate": "https://10.0.0.1/"})
    assert ("tools[0].definition.spec.urlTemplate", "incoherent") in found_in(manifest(wrong))
    with_entry = manifest(DEFINITION)
    with_entry["tools"][0]["entry"] = "a:b"
    assert ("tools[0].entry", "incoherent") in found_in(with_entry)
    with pytest.raises(BadManifest, match="a declared request may use one"):
        parse_manifest(manifest({**without_spec(), "needsSpec": {"secrets": {"K": {}}}}))


def without_spec() -> dict[str, Any]:
    return {name: value for name, value in DEFINITION.items() if name != "spec"}


def test_a_tool_of_code_says_which_hosts_it_reaches() -> None:
    raw = manifest({**without_spec(), "network": {"kind": "allowlist", "hosts": ["a.example.org"]}})
    raw["tools"][0]["entry"] = "notes:read"
    spec = parse_manifest(raw).tools[0].specification()
    assert spec.reaches == ("a.example.org",)
    assert spec.outside_data
    raw["tools"][0]["definition"]["network"] = {"kind": "unrestricted"}
    assert parse_manifest(raw).tools[0].specification().reaches == ("any public host",)
