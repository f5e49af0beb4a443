"""Fetch archives from a registry inside a sandbox and leave them in the workspace.

What arrives is not looked at here: whoever asked knows the hash of every archive, and takes no
other bytes. This file stands on the standard library alone.
"""

import http.client
import json
import os
import socket
import ssl
import sys
import threading
import urllib.parse
from typing import Any

AT_ONCE = 6
ANSWER_SECONDS = 30
CHUNK = 256 * 1024
CERTIFICATES = "/kaizen/certificates.pem"


class Fetcher:
    """Take archives from one registry, over a few connections that stay open."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.registry = urllib.parse.urlsplit(asked["registry"])
        proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or ""
        self.proxy = urllib.parse.urlsplit(proxy)
        self.archives: list[tuple[str, str]] = [(one, two) for one, two in asked["archives"]]
        self.most: int = asked["most"]
        self.budget: int = asked["budget"]
        self.lock = threading.Lock()
        self.fetched: list[str] = []
        self.failed: list[tuple[str, str]] = []

    def run(self) -> dict[str, Any]:
        """Fetch until all is there, something fails, or the budget is spent."""
        threads = [threading.Thread(target=self.work) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"fetched": self.fetched, "failed": self.failed}

    def work(self) -> None:
        """Take one archive after the other."""
        connection: http.client.HTTPConnection | None = None
        while True:
            with self.lock:
                # The first is always taken, so that no archive within its bound waits for ever.
                if not self.archives or self.failed or (self.fetched and self.budget <= 0):
                    break
                name, path = self.archives.pop(0)
            try:
                connection = connection or self.connect()
                size = self.fetch(connection, name, path)
            except (OSError, http.client.HTTPException, ValueError) as problem:
                with self.lock:
                    self.failed.append((name, f"{type(problem).__name__}: {problem}"[:300]))
                break
            with self.lock:
                self.budget -= size
                if self.budget < 0 and self.fetched:
                    # It would not fit into what is brought back; it comes with the next lot.
                    os.unlink(name)
                else:
                    self.fetched.append(name)
        if connection is not None:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection to the registry through the proxy, the only way out."""
        secure = self.registry.scheme == "https"
        host, port = self.registry.hostname or "", self.registry.port or (443 if secure else 80)
        if not self.proxy.hostname or not self.proxy.port:
            raise OSError("no way out of the sandbox")
        if secure:
            context = ssl.create_default_context(cafile=CERTIFICATES)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self.proxy.hostname, self.proxy.port, timeout=ANSWER_SECONDS, context=context
            )
        else:
            connection = http.client.HTTPConnection(
                self.proxy.hostname, self.proxy.port, timeout=ANSWER_SECONDS
            )
        connection.set_tunnel(host, port)
        return connection

    def fetch(self, connection: http.client.HTTPConnection, name: str, path: str) -> int:
        """Write one archive into the workspace; return its size."""
        base = self.registry.path.rstrip("/")
        connection.request("GET", base + path, headers={"Accept": "application/octet-stream"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"the registry answered {answer.status}")
        size = 0
        with open(name, "xb") as file:
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > self.most:
                    raise ValueError(f"the archive is larger than {self.most:,} bytes")
                file.write(chunk)
        return size


def main() -> None:
    """Read what is wanted, fetch it, and say what came."""
    channel = socket.socket(fileno=3)
    data = json.dumps(Fetcher(json.loads(sys.stdin.buffer.read())).run()).encode()
    channel.sendall(len(data).to_bytes(4, "big") + data)


if __name__ == "__main__":
    main()
