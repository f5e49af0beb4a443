"""A declared request goes to the judged address, in its time, and its end is told exactly."""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from apps.broker.calling import Performed, perform
from apps.broker.veil import HIDDEN, Veil
from apps.domain.httptools import http_tool, prepare
from apps.domain.tooling import FaultDomain, Reason, ToolFailure, ToolOk
from tests.broker.conftest import HOST, Resolver
from tests.sandboxd.outside import Upstream, certified, read_head, say

SECRET = "s3cr3t/value+of=the&service"
Start = Callable[..., Upstream]


def declared(port: int, method: str = "GET", **spec: Any) -> dict[str, Any]:
    return {
        "input": {
            "type": "object",
            "properties": {"q": {"type": "string"}},
            "required": ["q"],
        },
        "needsSpec": {"secrets": {"key": {}}},
        "spec": {
            "kind": "http",
            "method": method,
            "urlTemplate": f"https://{HOST}:{port}/find/{{q}}",
            "authorization": {"kind": "bearer", "secretRef": {"envName": "KEY", "name": "key"}},
            **spec,
        },
    }


def ask(
    port: int,
    method: str = "GET",
    *,
    q: str = "x",
    changes: bool | None = None,
    seconds: float = 20,
    cancelled: Callable[[], bool] = lambda: False,
    **spec: Any,
) -> Performed:
    tool = http_tool(declared(port, method, **spec))
    return perform(
        tool,
        prepare(tool, {"q": q}),
        proof=SECRET,
        changes_something=method != "GET" if changes is None else changes,
        seconds=seconds,
        cancelled=cancelled,
    )


def failure(done: Performed) -> ToolFailure:
    assert isinstance(done.result, ToolFailure), done
    assert SECRET not in repr(done)
    return done.result


def ok(done: Performed) -> Any:
    assert isinstance(done.result, ToolOk), done
    return done.result.value


def answers(raw: bytes) -> Callable[[socket.socket], None]:
    def answer(link: socket.socket) -> None:
        read_head(link)
        link.sendall(raw)

    return answer


# --- what is sent


def test_a_request_carries_what_was_declared_and_the_proof(upstream: Start) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        heard.append(read_head(link))
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b'{"found":1}')

    server = upstream(answer)
    headers = [{"name": "X-Client", "value": "kaizen"}]
    done = ask(server.port, q="a b", headers=headers)
    assert ok(done) == {"found": 1}
    head = heard[0].decode()
    assert head.startswith("GET /find/a%20b HTTP/1.1\r\n")
    assert f"Host: {HOST}:{server.port}\r\n" in head
    assert f"Authorization: Bearer {SECRET}\r\n" in head
    assert "X-Client: kaizen\r\n" in head
    assert "Accept-Encoding: identity\r\n" in head
    assert done.facts["status"] == 200
    assert done.facts["address"] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_every_method_carries_its_body(upstream: Start, method: str) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        data = read_head(link)
        while b'{"q": "x"}' not in data:
            data += link.recv(4096)
        heard.append(data)
        link.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")

    server = upstream(answer)
    assert ok(ask(server.port, method, requestBody={"kind": "json-input"})) == {}
    head = heard[0].decode()
    assert head.startswith(f"{method} /find/x HTTP/1.1")
    assert "Content-Length: 10\r\n" in head
    assert "Content-Type: application/json\r\n" in head


def test_a_secret_can_stand_in_a_header_of_its_own(upstream: Start) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        heard.append(read_head(link))
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    proof = {"kind": "header", "headerName": "X-Api-Key",
             "secretRef": {"envName": "KEY", "name": "key"}}  # fmt: skip
    ok(ask(upstream(answer).port, authorization=proof))
    assert f"X-Api-Key: {SECRET}\r\n".encode() in heard[0]
    assert b"Authorization" not in heard[0]


def test_no_value_of_the_input_becomes_a_header_or_a_second_request(upstream: Start) -> None:
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        heard.append(read_head(link))
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = upstream(answer)
    value = "x HTTP/1.1\r\nX-Evil: 1\r\n\r\nGET /evil"
    ok(ask(server.port, q=value, urlTemplate=f"https://{HOST}:{server.port}/?q={{q}}"))
    assert heard[0].count(b"\r\n\r\n") == 1
    assert b"X-Evil: 1\r\n" not in heard[0]
    assert server.reached == 1


# --- where it goes


@pytest.mark.parametrize(
    "answered",
    [["10.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "192.168.0.1"], ["::ffff:127.0.0.1"],
     ["64:ff9b::7f00:1"], ["fd00::1"], ["0.0.0.1"]],
)  # fmt: skip
def test_a_name_that_leads_inside_is_not_asked(
    upstream: Start, resolver: Resolver, answered: list[str]
) -> None:
    server = upstream(say(b"{}"))
    resolver.answers[HOST] = [answered]
    done = ask(server.port)
    assert failure(done).reason is Reason.DEPENDENCY_UNAVAILABLE
    assert "leads to an address that is" in failure(done).message
    assert done.facts["code"] == "address_not_public"
    assert server.reached == 0


def test_loopback_is_reached_by_the_operator_s_exemption_only(
    upstream: Start, settings: Any
) -> None:
    server = upstream(say(b"{}"))
    settings.KAIZEN_EGRESS_EXEMPT = ()
    assert ask(server.port).facts["code"] == "address_not_public"
    assert server.reached == 0


def test_a_second_answer_of_the_resolver_is_never_asked_for(
    upstream: Start, resolver: Resolver
) -> None:
    server = upstream(say(b"{}"))
    resolver.answers[HOST] = [["127.0.0.1"], ["169.254.169.254"]]
    ok(ask(server.port))
    assert resolver.asked == [HOST]
    assert ask(server.port).facts["code"] == "address_not_public"
    assert server.reached == 1


def test_the_certificate_has_to_be_the_host_s(
    upstream: Start, trusted: None, tmp_path: Path
) -> None:
    other, _ = certified(tmp_path, HOST)
    server = Upstream(say(b"{}"), other)
    done = ask(server.port)
    server.close()
    assert done.facts["code"] == "certificate"
    assert "Nothing was sent." in failure(done).message


def test_a_certificate_of_another_name_is_none(
    upstream: Start, resolver: Resolver, identity: tuple[ssl.SSLContext, Path]
) -> None:
    server = upstream(say(b"{}"))
    resolver.answers["other.kaizen.example"] = [["127.0.0.1"]]
    done = ask(server.port, urlTemplate=f"https://other.kaizen.example:{server.port}/{{q}}")
    assert done.facts["code"] == "certificate"


def test_plain_http_goes_to_exempted_addresses_only(upstream: Start, resolver: Resolver) -> None:
    server = upstream(say(b"{}"), plain=True)
    template = f"http://{HOST}:{server.port}/{{q}}"
    assert ok(ask(server.port, urlTemplate=template)) == {}
    resolver.answers[HOST] = [["93.184.216.34"]]
    assert ask(server.port, urlTemplate=template).facts["code"] == "not_encrypted"


def test_proxies_of_the_environment_are_not_asked(
    upstream: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ok(ask(upstream(say(b"{}")).port)) == {}


# --- what comes back


def test_a_redirect_is_an_answer_and_is_not_followed(upstream: Start, resolver: Resolver) -> None:
    elsewhere = upstream(say(b"{}"))
    location = f"https://{HOST}:{elsewhere.port}/?key={SECRET}"
    raw = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    server = upstream(answers(raw.encode()))
    found = failure(ask(server.port))
    assert "302" in found.message
    assert found.details == {"status": 302, "answer": ""}
    assert elsewhere.reached == 0


@pytest.mark.parametrize("wrap", ['{"heard": "%s"}', "Heard %s, twice", '{"heard": "%s"} {}'])
@pytest.mark.parametrize(
    "written",
    [
        SECRET.replace("/", "\\/"),
        SECRET.replace("/", "\\/").replace("&", "\\u0026"),
        SECRET.replace("&", "\\u0026").replace("+", "\\u002B"),
        SECRET.replace("&", "&amp;").replace("+", "&#43;"),
    ],
)
def test_a_proof_that_an_error_writes_with_escapes_is_hidden(
    upstream: Start, written: str, wrap: str
) -> None:
    body = (wrap % written).encode()
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body)
    found = failure(ask(upstream(answers(head + body)).port))
    assert found.details is not None
    assert written not in found.details["answer"]
    assert "[hidden]" in found.details["answer"]


def test_a_proof_in_json_is_hidden_however_its_signs_are_written(upstream: Start) -> None:
    body = b'{"heard": "%s"}' % "".join(f"\\u{ord(one):04x}" for one in SECRET).encode()
    for status in b"200 OK", b"500 No":
        head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        done = ask(upstream(answers(head + body)).port, parseJson=False)
        assert "[hidden]" in repr(done)
        assert "0073" not in repr(done)


@pytest.mark.parametrize("parse", [True, False])
def test_a_proof_that_is_sent_back_is_hidden(upstream: Start, parse: bool) -> None:

    basic = base64.b64encode(f"user:{SECRET}".encode()).decode()
    forms = [SECRET, f"Bearer {SECRET}", quote(SECRET, safe=""), quote_plus(SECRET), basic,
             SECRET.encode().hex(), SECRET[::-1]]  # fmt: skip
    body = json.dumps({"echo": forms, SECRET: 1, "deep": [{"a": SECRET}]}).encode()
    done = ask(upstream(say(body)).port, parseJson=parse)
    told = json.dumps(ok(done))
    for form in forms[:1] + forms[2:4] + forms[5:]:
        assert form not in told
    assert base64.b64encode(SECRET.encode()).decode()[:20] not in told
    assert basic not in told
    assert told.count("[hidden]") >= 8


def test_a_proof_of_digits_is_hidden_where_it_comes_back_as_a_number() -> None:
    given = {"a": 12345678, "b": [9123456780], "c": 1234567, "d": True, "e": 0.5}
    assert Veil(["12345678"]).value(given) == given | {"a": "[hidden]", "b": ["[hidden]"]}
    assert Veil([SECRET]).value(given) == given


@pytest.mark.parametrize("before", range(0, 77, 5))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n"])
def test_a_proof_is_hidden_wherever_lines_of_base64_part_it(before: int, end: str) -> None:
    lines = base64.encodebytes(b"x" * before + SECRET.encode() + b"x" * 80).decode()
    told = Veil([SECRET]).text(f"Data: {lines}".replace("\n", end))
    its_own = slice(-(-before * 4 // 3), (before + len(SECRET)) * 4 // 3)
    letters = lines.replace("\n", "")[its_own]
    assert HIDDEN in told
    for place in range(len(letters) - 5):
        assert letters[place : place + 6] not in told.replace(end, "")


def test_a_proof_in_an_address_within_an_address_is_hidden() -> None:
    for written in (quote, quote_plus):
        told = Veil(["a key/with+signs"]).text(f"?next={quote(written('a key/with+signs'))}")
        assert told.endswith(HIDDEN)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_proof_in_an_encoding_that_nobody_named_is_hidden(upstream: Start, encoding: str) -> None:
    body = f"It was {SECRET}, wasn't it?".encode(encoding)
    told = str(ok(ask(upstream(say(body)).port, parseJson=False)))
    assert SECRET not in told
    assert HIDDEN in told


@pytest.mark.parametrize("status", ["400 Bad", "500 Broken", "302 Found"])
def test_a_proof_in_an_error_is_hidden(upstream: Start, status: str) -> None:
    found = failure(ask(upstream(say(f"no: {SECRET}".encode(), status)).port))
    assert found.details is not None
    assert found.details["answer"] == "no: [hidden]"


@pytest.mark.parametrize(
    ("status", "reason", "retryable", "fault"),
    [
        ("400 x", Reason.INVALID_ARGUMENTS, False, FaultDomain.CALLER),
        ("401 x", Reason.PERMISSION_DENIED, False, FaultDomain.DEPENDENCY),
        ("404 x", Reason.NOT_FOUND, False, FaultDomain.CALLER),
        ("409 x", Reason.CONFLICT, False, FaultDomain.CALLER),
        ("418 x", Reason.REPORTED_FAILURE, False, FaultDomain.TOOL),
        ("429 x", Reason.LIMIT_EXCEEDED, True, FaultDomain.DEPENDENCY),
        ("503 x", Reason.DEPENDENCY_UNAVAILABLE, True, FaultDomain.DEPENDENCY),
    ],
)
def test_a_status_outside_success_is_an_error_with_that_status(
    upstream: Start, status: str, reason: Reason, retryable: bool, fault: FaultDomain
) -> None:
    done = ask(upstream(say(b"why", status)).port)
    found = failure(done)
    assert (found.reason, found.retryable, found.fault) == (reason, retryable, fault)
    assert found.details == {"status": int(status[:3]), "answer": "why"}
    assert done.facts["status"] == int(status[:3])


def test_a_declaration_says_what_success_is(upstream: Start) -> None:
    server = upstream(say(b'{"missing": true}', "404 Not Found"))
    assert ok(ask(server.port, successStatus={"min": 404, "max": 404})) == {"missing": True}
    server = upstream(say(b"{}", "200 OK"))
    assert failure(ask(server.port, successStatus={"min": 201, "max": 204})).details


def test_json_is_read_strictly_and_an_empty_body_is_nothing(upstream: Start) -> None:
    assert ok(ask(upstream(say(b"", "204 No Content")).port)) is None
    for body in (b"<html>", b'{"a":1,"a":2}', b"[NaN]", b"[" * 5000, b'{"a":1} x', b"\xff\xfe"):
        assert failure(ask(upstream(say(body)).port)).reason is Reason.CONTRACT_ERROR
    assert ok(ask(upstream(say("grüß".encode())).port, parseJson=False)) == "grüß"


def test_an_answer_is_bounded(upstream: Start) -> None:
    def endless(link: socket.socket) -> None:
        read_head(link)
        link.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            link.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")

    assert failure(ask(upstream(endless).port)).reason is Reason.LIMIT_EXCEEDED
    huge = b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000
    assert failure(ask(upstream(answers(huge)).port)).reason is Reason.DEPENDENCY_UNAVAILABLE


def test_chunks_are_put_together(upstream: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw = head + b'4\r\n{"a"\r\n4\r\n: 1}\r\n0\r\n\r\n'
    assert ok(ask(upstream(answers(raw)).port)) == {"a": 1}


def test_a_compressed_answer_is_not_opened(upstream: Start) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"
    assert failure(ask(upstream(answers(raw)).port)).reason is Reason.CONTRACT_ERROR


def test_an_answer_that_drips_ends_with_the_whole_time(upstream: Start) -> None:
    def drip(link: socket.socket) -> None:
        read_head(link)
        link.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while True:
            link.sendall(b"x")
            time.sleep(0.05)

    began = time.monotonic()
    found = failure(ask(upstream(drip).port, timeoutMs=1_000))
    assert found.reason is Reason.TIMEOUT
    assert time.monotonic() - began < 10


def test_a_call_that_nobody_waits_for_ends(upstream: Start) -> None:
    heard = threading.Event()

    def silent(link: socket.socket) -> None:
        read_head(link)
        heard.set()
        link.recv(1)

    found = failure(ask(upstream(silent).port, cancelled=heard.is_set))
    assert found.reason is Reason.CANCELLED


# --- exact ends


def test_a_call_that_nobody_waits_for_ends_before_the_other_side_has_shown_itself(
    upstream: Start,
) -> None:
    over, calls = threading.Event(), threading.Event()
    # It takes the connection and never says a word, so that no handshake comes about.
    server = upstream(lambda _: over.wait(20), plain=True)
    threading.Timer(0.8, calls.set).start()
    begun = time.monotonic()
    said = failure(ask(server.port, "POST", cancelled=calls.is_set))
    over.set()
    assert (said.reason, time.monotonic() - begun < 5) == (Reason.CANCELLED, True)
    assert said.message.endswith("Nothing was sent.")


def test_time_that_ends_before_the_other_side_has_shown_itself_is_a_timeout(
    upstream: Start,
) -> None:
    over = threading.Event()
    server = upstream(lambda _: over.wait(20), plain=True)
    said = failure(ask(server.port, "POST", seconds=0.8))
    over.set()
    assert said.reason is Reason.TIMEOUT
    assert said.message.endswith("Nothing was sent.")


def test_a_read_that_is_broken_off_failed_and_may_be_tried_again(upstream: Start) -> None:
    found = failure(ask(upstream(read_head).port))
    assert (found.reason, found.retryable) == (Reason.DEPENDENCY_UNAVAILABLE, True)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_that_is_broken_off_has_an_unknown_end(upstream: Start, method: str) -> None:
    found = failure(ask(upstream(read_head).port, method))
    assert (found.reason, found.retryable) == (Reason.OUTCOME_UNKNOWN, False)
    assert "unknown" in found.message


def test_a_write_that_is_not_answered_in_time_has_an_unknown_end(upstream: Start) -> None:
    def silent(link: socket.socket) -> None:
        read_head(link)
        link.recv(1)

    found = failure(ask(upstream(silent).port, "POST", timeoutMs=700))
    assert found.reason is Reason.OUTCOME_UNKNOWN


def test_a_write_that_never_left_says_so(upstream: Start, resolver: Resolver) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    for done in (ask(port, "POST"), ask(1, "POST", urlTemplate="https://no.example/{q}")):
        found = failure(done)
        assert (found.reason, found.retryable) == (Reason.DEPENDENCY_UNAVAILABLE, True)
        assert found.message.endswith("Nothing was sent.")


def test_a_write_that_the_other_side_broke_on_says_to_look_first(upstream: Start) -> None:
    found = failure(ask(upstream(say(b"", "502 Bad Gateway")).port, "POST"))
    assert (found.reason, found.retryable) == (Reason.DEPENDENCY_UNAVAILABLE, False)
    assert "unknown" in found.message
