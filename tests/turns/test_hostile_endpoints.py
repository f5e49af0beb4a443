"""Whoever plays the model may send anything, at any pace: a turn is held by nothing of it."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.rooms.models import Room
from apps.turns import answer, openai_line
from apps.turns.listening import patiently
from apps.turns.openai_client import OpenAIProvider
from apps.turns.provider import ArgumentsDelta, CallStarted, ProviderFailed, TextDelta, Usage
from tests.factories.rooms import make_run

KEY = "sk-SECRET-KEY"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"


def event(delta: Any = None, finish: Any = None, **more: Any) -> bytes:
    said = {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(said).encode() + b"\n\n"


END = event(finish="stop") + b"data: [DONE]\n\n"


class Endpoint:
    """An endpoint that answers each connection with these pieces, and counts them."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self.pieces = pieces
        self.asked: list[bytes] = []
        self.gone = threading.Event()
        self.url = ""


@contextmanager
def endpoint(pieces: Callable[[], Iterator[bytes]]) -> Iterator[Endpoint]:
    served = Endpoint(pieces)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            served.asked.append(self.request.recv(65_536))
            try:
                for piece in served.pieces():
                    self.request.sendall(piece)
            except OSError:
                served.gone.set()

    class Server(ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def heard(served: Endpoint, *, patience: float = 20.0) -> list[Any]:
    """Hear an endpoint out as a turn does."""
    asked = OpenAIProvider(base_url=served.url, api_key=KEY, default_model="fake")
    deltas = asked.stream(model="", messages=[], tools=[], stopped=lambda: False)
    try:
        return list(patiently(deltas, lambda: False, patience=patience))
    finally:
        asked.hang_up()


def failure(*pieces: bytes) -> ProviderFailed:
    with endpoint(lambda: iter(pieces)) as served, pytest.raises(ProviderFailed) as failed:
        heard(served)
    assert "SECRET" not in repr((failed.value.message, vars(failed.value)))
    return failed.value


def test_a_conversation_follows_no_redirect() -> None:
    with endpoint(lambda: iter([HEAD, b"\r\n", END])) as other:
        for status in (301, 302, 303, 307, 308):
            where = (
                f"HTTP/1.1 {status} Moved\r\nLocation: {other.url}/x\r\nContent-Length: 0\r\n\r\n"
            )
            assert failure(where.encode()).status == status
        assert other.asked == []


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(lambda: forever(HEAD + b"\r\n", b": still here\n\n", 0.001), id="comments"),
        pytest.param(lambda: forever(HEAD + b"\r\n", event(), 0.001), id="empty deltas"),
        pytest.param(
            lambda: forever(HEAD + b"\r\n", b'data: {"choices": []}\n\n', 0.001), id="no choices"
        ),
        pytest.param(lambda: forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), id="1xx"),
        pytest.param(lambda: forever(HEAD, b"X-More: 1\r\n", 0.05), id="slow headers"),
        pytest.param(lambda: forever(HEAD + b"\r\ndata: ", b"x", 0.05), id="a slow line"),
    ],
)
def test_an_endpoint_that_goes_on_for_ever_without_a_word_is_hung_up_on(
    endless: Callable[[], Iterator[bytes]],
) -> None:
    with endpoint(endless) as served:
        with pytest.raises(ProviderFailed, match="said nothing"):
            heard(served, patience=0.5)
        assert served.gone.wait(20), "its connection lives on, and with it a thread"
    ended = time.monotonic() + 20
    while any(one.name == "model" for one in threading.enumerate()):
        assert time.monotonic() < ended
        time.sleep(0.02)


def forever(first: bytes, then: bytes, pause: float = 0.0) -> Iterator[bytes]:
    yield first
    while True:
        yield then
        time.sleep(pause)


@pytest.mark.parametrize(
    "grows", [b"x" * 8_192, b"\ndata: x" * 1_000, b"\nid: x\n: x" * 1_000, b"\r\nretry: 1" * 900]
)
def test_an_event_without_an_end_is_given_up_at_its_bound(
    grows: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_line, "MAX_EVENT", 100_000)
    with (
        endpoint(lambda: forever(HEAD + b"\r\ndata: ", grows)) as served,
        pytest.raises(ProviderFailed) as failed,
    ):
        heard(served)
    assert failed.value.broke_off
    assert served.gone.wait(20)


def test_many_events_together_may_be_larger_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_line, "MAX_EVENT", 1_000)
    for cut in (1, 7, 100_000):
        said = event({"content": "a"}) * 50 + event({"content": "b"}).replace(b"\n", b"\r\n") + END
        pieces = [said[at : at + cut] for at in range(0, len(said), cut)]
        with endpoint(partial(iter, [HEAD + b"\r\n", *pieces])) as served:
            assert heard(served) == [TextDelta("a")] * 50 + [TextDelta("b")]


def test_a_compressed_answer_is_not_unpacked() -> None:
    packed = gzip.compress(event({"content": "x" * 10_000_000}) + END)
    broken = failure(HEAD + b"Content-Encoding: gzip\r\n\r\n", packed)
    assert broken.broke_off
    with endpoint(lambda: iter([HEAD + b"\r\n", END])) as served:
        heard(served)
    assert b"accept-encoding: identity\r\n" in served.asked[0].lower()


@pytest.mark.parametrize("coding", [b"", b"Content-Encoding: gzip\r\n"])
def test_a_refusal_that_never_ends_is_known_by_its_status(coding: bytes) -> None:
    head = b"HTTP/1.1 503 No\r\n" + coding + b"\r\n"
    with endpoint(lambda: forever(head, b"SECRET " * 1_000)) as served:
        with pytest.raises(ProviderFailed) as failed:
            heard(served)
        assert (failed.value.status, failed.value.deterministic) == (503, False)
        assert "SECRET" not in failed.value.message
        assert served.gone.wait(20)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>SECRET</html>",
        b'{"choices": [{"message": {"content": "SECRET"}}]}',
        b"data: \xff\xfe\n\n",
        b"data: " + b"[" * 200_000 + b"\n\n",
        b'data: {"choices": [], "created": ' + b"9" * 10_000 + b"}\n\n",
        b"data: NaN\n\n",
        b"event: error\ndata: {}\n\n",
        b"event: thread.x\ndata: {}\n\n",
        b"event: thread.x\ndata: nothing\n\n",
        b'data: {"error": {"message": {"SECRET": 1}, "code": ["SECRET"]}}\n\n',
        b"data: [DONE]\n\n" + event({"content": "SECRET"}) + END,
        b"",
    ],
)
def test_what_is_no_answer_is_a_failed_provider(body: bytes) -> None:
    failure(HEAD + b"\r\n", body)


@pytest.mark.parametrize("status", [101, 204, 205, 299, 300, 304, 400, 418, 499, 500, 599, 799])
@pytest.mark.parametrize("body", [b"", b'{"error": ["SECRET"]}', b"[" * 50_000, b"\xff"])
def test_whatever_the_status_the_provider_failed(status: int, body: bytes) -> None:
    failure(f"HTTP/1.1 {status} SECRET\r\nRetry-After: 1e999\r\n\r\n".encode(), body)


def test_nothing_after_the_end_is_heard_and_no_choice_but_the_first() -> None:
    both = [{"delta": {"content": text}, "finish_reason": None} for text in ("one", "two")]
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    said = b"data: " + json.dumps({"choices": both}).encode() + b"\n\n"
    late = event({"content": "late"}, usage={"prompt_tokens": 9, "completion_tokens": 9})
    with endpoint(lambda: iter([HEAD + b"\r\n", said, event(usage=usage), END, late])) as served:
        assert heard(served) == [TextDelta("one"), Usage(3, 4)]


@pytest.mark.django_db(transaction=True)
def test_the_arguments_of_one_answer_are_bounded_together(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "MAX_ARGUMENTS", 1_000)
    listened = answer.Answer(run=make_run(room, agent, member), step=1, tools=[])
    with pytest.raises(ProviderFailed, match="past every bound"):
        for place in range(3):
            listened.hear(CallStarted(place, f"c{place}", "search_about"))
            listened.hear(ArgumentsDelta(place, "x" * 400))
