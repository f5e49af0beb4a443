"""Send one request to one judged address, within its time, and read a bounded answer.

The name is looked up once and every answer is judged; the connection goes to the judged address,
while the certificate has to be the name's. No redirect is followed, no proxy of the environment is
asked, nothing is tried twice.
"""

from __future__ import annotations

import functools
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import certifi
import httpcore
from django.conf import settings

from apps.domain.egress import Denied, address_kind
from apps.domain.httptools import HttpTool, Request
from apps.sandboxd.egress_route import Resolver, Routes

MAX_ANSWER: Final = 2 * 1024 * 1024

_STEP: Final = 0.25
_AGENT: Final = "Kaizen"


class NotSent(RuntimeError):
    """Nothing of the request has left; the sentence may be shown."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Lost(RuntimeError):
    """The request, or a part of it, has left, and no whole answer came."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: all of it untrusted, and within bounds."""

    status: int
    content_type: str
    body: bytes
    address: str


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may take, and whether anybody still waits for it."""

    until: float
    cancelled: Callable[[], bool]

    def left(self) -> float:
        """Return the seconds that are left, at most."""
        return max(0.0, self.until - time.monotonic())

    def gone(self) -> bool:
        """Tell whether nobody waits any more."""
        return self.cancelled()


def send(
    tool: HttpTool,
    request: Request,
    *,
    proof: tuple[tuple[str, str], ...],
    patience: Patience,
    routes: Routes | None = None,
) -> Answer:
    """Send a request with what proves who asks, or raise NotSent or Lost."""
    line = _Line(tool, patience, routes or _routes())
    headers = {"User-Agent": _AGENT, **dict(request.headers), "Accept-Encoding": "identity"}
    raw = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    raw += [(name.encode("ascii"), value.encode("ascii")) for name, value in proof]
    # Where a body may stand and none does, its length is said all the same.
    content = request.body if request.body or request.method in ("POST", "PUT", "PATCH") else None
    try:
        with (
            httpcore.ConnectionPool(
                ssl_context=_trust(), max_connections=1, retries=0, network_backend=line
            ) as pool,
            pool.stream(
                request.method,
                httpcore.URL(
                    scheme=tool.scheme, host=tool.host, port=tool.port, target=request.target
                ),
                headers=raw,
                content=content,
            ) as response,
        ):
            return _answer(response, line)
    except Denied as denied:
        raise NotSent(denied.code, str(denied)) from denied
    except (httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException) as broken:
        if not line.sent:
            raise NotSent("unreachable", f"{tool.host} could not be reached.") from broken
        raise Lost("broken", f"The connection to {tool.host} broke off.") from broken


def _answer(response: httpcore.Response, line: _Line) -> Answer:
    headers = {name.lower(): value for name, value in response.headers}
    coding = headers.get(b"content-encoding", b"identity").strip().lower()
    if coding not in (b"", b"identity"):
        raise Lost("compressed", f"{line.host} compressed its answer, which was not asked for.")
    body = bytearray()
    for chunk in response.iter_stream():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise Lost("too_large", f"{line.host} answered more than {MAX_ANSWER:,} bytes.")
    kind = headers.get(b"content-type", b"").decode("latin-1")[:200]
    return Answer(response.status, kind, bytes(body), line.address)


class _Line(httpcore.NetworkBackend):
    """Connects to judged addresses only, and bounds each wait by the whole request's time."""

    def __init__(self, tool: HttpTool, patience: Patience, routes: Routes) -> None:
        self.host = tool.host
        self.patience = patience
        self.address = ""
        self.sent = False
        self._plain = tool.scheme == "http"
        self._routes = routes

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Look the name up, judge its answers, and connect to one of them."""
        route = self._routes.find(host, port, self.patience)
        if self._plain and any(address_kind(one) == "public" for one in route.addresses):
            raise Denied("not_encrypted", f"{host} is public and is only asked over https.")
        link, self.address = self._routes.connect(route, self.patience)
        return _Stream(link, self)

    def wait(self, link: socket.socket, do: Callable[[], Any]) -> Any:
        """Do something with a socket, within the request's time and while somebody waits."""
        while True:
            left = self.patience.left()
            if left <= 0:
                raise self._ended("timeout", f"{self.host} did not answer in time.")
            if self.patience.gone():
                raise self._ended("cancelled", "The call was cancelled before the answer came.")
            link.settimeout(min(_STEP, left))
            try:
                return do()
            except (TimeoutError, ssl.SSLWantReadError):
                continue

    def _ended(self, code: str, sentence: str) -> NotSent | Lost:
        return Lost(code, sentence) if self.sent else NotSent(code, sentence)


class _Stream(httpcore.NetworkStream):
    def __init__(self, link: socket.socket, line: _Line) -> None:
        self._link = link
        self._line = line

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what came."""
        try:
            found: bytes = self._line.wait(self._link, lambda: self._link.recv(max_bytes))
        except OSError as problem:
            raise httpcore.ReadError(str(problem)) from problem
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it; from then on nobody can say that nothing was sent."""
        view = memoryview(buffer)
        self._line.sent = self._line.sent or bool(view)
        try:
            while view:
                view = view[self._line.wait(self._link, functools.partial(self._link.send, view)) :]
        except OSError as problem:
            raise httpcore.WriteError(str(problem)) from problem

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Speak TLS with whoever can prove to be the host that was named."""
        try:
            secure = ssl_context.wrap_socket(
                self._link, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            # From here on the connection is the wrapped one's to close.
            self._link = secure
            self._line.wait(secure, secure.do_handshake)
        except (NotSent, Lost):
            self.close()
            raise
        except ssl.SSLCertVerificationError as problem:
            self.close()
            said = f"{self._line.host} does not prove who it is: {problem.verify_message}."
            raise NotSent("certificate", said) from problem
        except OSError as problem:
            self.close()
            said = f"{self._line.host} could not be spoken to over TLS."
            raise NotSent("tls", said) from problem
        return _Stream(secure, self._line)

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._link.close()

    def get_extra_info(self, info: str) -> Any:
        """Tell what little is asked of a connection."""
        return self._link if info == "socket" else None


@functools.lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Trust the usual authorities, and those that this machine was told of."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


@functools.lru_cache(maxsize=1)
def _resolver() -> Resolver:
    return Resolver()


def _routes() -> Routes:
    return Routes(_resolver(), settings.KAIZEN_EGRESS_EXEMPT)
