"""A registry for packages, as small as can be: it keeps archives and counts who asks."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.factories.locks import Published


class Registry:
    """Serve archives on our own loopback, as a registry does."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.archives: dict[str, bytes] = {}
        # What is done instead of answering, by the address that is asked for.
        self.instead: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.asked.append(self.path)
                if instead := registry.instead.get(self.path):
                    # Whoever asked may have gone before the end.
                    with suppress(OSError):
                        instead(self)
                    self.close_connection = True
                    return
                body = registry.archives.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, *packages: Published) -> None:
        """Keep the archives of packages."""
        self.archives |= {one.path: one.archive for one in packages}

    def close(self) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()
