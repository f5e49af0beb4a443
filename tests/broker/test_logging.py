"""No log tells a secret that was sent or came back, also where everything is logged."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.sandboxd.outside import Upstream, read_head

SENT, CAME = "sent-secret-of-a-service", "came-secret-of-a-service"
BODY = b'{"object": "list", "data": []}'

# A process of its own, as a deployment starts it: what is logged is what it prints as errors.
PROGRAM = """
import logging, socket, sys
import django
django.setup()
import httpx, openai
from apps.broker.calling import perform
from apps.domain.httptools import http_tool, prepare

port, secret = sys.argv[1], sys.argv[2]
socket.getaddrinfo = lambda host, port, *_, **__: [(2, 1, 6, "", ("127.0.0.1", int(port or 0)))]

def ask():
    tool = http_tool({
        "input": {"type": "object", "properties": {}}, "needsSpec": {"secrets": {"key": {}}},
        "spec": {
            "kind": "http", "method": "GET", "urlTemplate": f"http://api.kaizen.example:{port}/",
            "authorization": {"kind": "bearer", "secretRef": {"envName": "KEY", "name": "key"}},
        },
    })
    done = perform(tool, prepare(tool, {}), proof=secret, changes_something=False, seconds=20,
                   cancelled=lambda: False)
    assert type(done.result).__name__ == "ToolOk", done
    httpx.get(f"http://127.0.0.1:{port}/", headers={"Authorization": secret}).raise_for_status()
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}", api_key=secret)
    client.models.list(extra_headers={"X-Other": secret})

for name in ("httpcore", "httpcore.http11", "httpx", "openai", "openai._base_client"):
    # As a library may do by itself, for a variable of the environment.
    logging.getLogger(name).setLevel(logging.DEBUG)
logging.getLogger("kaizen.tests").debug("this level is on")
ask()
print("--- and without the floors", file=sys.stderr, flush=True)
for handler in logging.getLogger().handlers:
    handler.filters.clear()
ask()
"""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    def answer(link: socket.socket) -> None:
        read_head(link)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\nSet-Cookie: session={CAME}\r\n"
        kind = "Content-Type: application/json\r\nConnection: close\r\n\r\n"
        link.sendall(head.encode() + kind.encode() + BODY)

    one = Upstream(answer)
    yield one
    one.close()


def test_at_the_lowest_level_no_log_tells_a_secret(upstream: Upstream) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "kaizen.settings",
        "KAIZEN_LOG_LEVEL": "DEBUG",
        "KAIZEN_EGRESS_EXEMPT": "127.0.0.0/8",
        "OPENAI_LOG": "debug",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(upstream.port), SENT],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    logged, _, without = ran.stderr.partition("--- and without the floors")
    assert "this level is on" in logged
    assert SENT not in logged
    assert CAME not in logged
    # What is not said there would have been said.
    assert CAME in without
