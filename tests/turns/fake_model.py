"""A model's HTTP endpoint on loopback: the real protocol, with answers that a test wrote."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeModel:
    """Serves one scripted answer per request and remembers what it was asked."""

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.correlation_ids: list[str] = []
        self.usage: dict[str, Any] | None = None
        self.url = ""
        self.for_ever = False

    def answers_for_ever(self, first: tuple[str, Any], text: str) -> None:
        """Call a tool until a request speaks of a call, and say the text from then on."""
        self.calls(first)
        self.says(text)
        self.for_ever = True

    def says(self, text: str) -> None:
        """Answer with text."""
        self.script.append([{"content": piece} for piece in _pieces(text)])

    def calls(self, *calls: tuple[str, Any], pause: float = 0.0) -> None:
        """Answer with tool calls, their arguments in pieces."""
        deltas: list[dict[str, Any]] = []
        for index, (name, arguments) in enumerate(calls):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            function: dict[str, Any] = {"name": name, "arguments": ""}
            deltas.append(
                {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}
            )
            for piece in _pieces(text):
                part = {"index": index, "function": {"arguments": piece}}
                deltas.append({"tool_calls": [part], "pause": pause})
        self.script.append(deltas)

    def fails(self, status: int, *, code: str = "", retry_after: str = "") -> None:
        """Answer with an HTTP error whose body must never be shown to anyone."""
        self.script.append(_Failure(status, code, retry_after))

    def is_cut(self, text: str, *calls: tuple[str, str]) -> None:
        """Answer up to a length limit, in the middle of a call where one is given."""
        self.script.append([{"content": text}, *_call_deltas(calls), "length"])

    def sends(self, *lines: str) -> None:
        """Answer with exactly these lines of the stream."""
        self.script.append(tuple(lines))

    def keeps_silent(self, seconds: float) -> None:
        """Answer with nothing for so long, and then with a word."""
        self.script.append([{"content": "At last.", "pause": seconds}])

    def breaks_off(self, text: str, *calls: tuple[str, str]) -> None:
        """Begin an answer, with the raw arguments of calls, and drop the connection."""
        self.script.append([{"content": text}, *_call_deltas(calls), None])


@dataclass(frozen=True)
class _Failure:
    status: int
    code: str
    retry_after: str


def _call_deltas(calls: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "tool_calls": [
                {
                    "index": index,
                    "id": f"c{index}",
                    "function": {"name": name, "arguments": arguments},
                }
            ]
        }
        for index, (name, arguments) in enumerate(calls)
    ]


def _pieces(text: str) -> list[str]:
    return [text[i : i + 11] for i in range(0, len(text), 11)]


@contextmanager
def fake_model() -> Iterator[FakeModel]:
    """Run the endpoint for the length of a test."""
    model = FakeModel()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            model.correlation_ids.append(self.headers.get("X-Correlation-ID", ""))
            model.asked.append(json.loads(self.rfile.read(length)))
            if model.for_ever:
                called = "call 1.0" in str(model.asked[-1]) or "tool_call_id" in str(
                    model.asked[-1]
                )
                answer = copy.deepcopy(model.script[1 if called else 0])
            else:
                answer = model.script.pop(0)
            if isinstance(answer, _Failure):
                error = {"message": "prompt says: SECRET-PAYLOAD", "code": answer.code}
                body = json.dumps({"error": error}).encode()
                self.send_response(answer.status)
                if answer.retry_after:
                    self.send_header("Retry-After", answer.retry_after)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            if isinstance(answer, tuple):
                for line in answer:
                    self.wfile.write(f"data: {line}\n\n".encode())
                return
            for delta in answer:
                if delta is None:
                    return
                if delta == "length":
                    self._chunk({}, "length")
                    return
                time.sleep(delta.pop("pause", 0.0))
                self._chunk(delta, None)
            calls = any("tool_calls" in delta for delta in answer)
            self._chunk({}, "tool_calls" if calls else "stop")
            if model.usage is not None and model.asked[-1].get("stream_options"):
                self._send({"choices": [], "usage": model.usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _chunk(self, delta: dict[str, Any], finish: str | None) -> None:
            self._send({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        def _send(self, said: dict[str, Any]) -> None:
            head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
            chunk = {**head, **said}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
