"""A model's HTTP endpoint on loopback: the real protocol, with answers that a test wrote."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeModel:
    """Serves one scripted answer per request and remembers what it was asked."""

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.usage: dict[str, Any] | None = None
        self.url = ""

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

    def fails(self, status: int) -> None:
        """Answer with an HTTP error whose body must never be shown to anyone."""
        self.script.append(status)

    def sends(self, *lines: str) -> None:
        """Answer with exactly these lines of the stream."""
        self.script.append(tuple(lines))

    def keeps_silent(self, seconds: float) -> None:
        """Answer with nothing for so long, and then with a word."""
        self.script.append([{"content": "At last.", "pause": seconds}])

    def breaks_off(self, text: str) -> None:
        """Begin an answer and drop the connection."""
        self.script.append([{"content": text}, None])


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
            model.asked.append(json.loads(self.rfile.read(length)))
            answer = model.script.pop(0)
            if isinstance(answer, int):
                body = json.dumps({"error": {"message": "prompt says: SECRET-PAYLOAD"}}).encode()
                self.send_response(answer)
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
