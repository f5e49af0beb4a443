"""What do the tests of outside systems share? Real servers on loopback, and names that lead there.

The machine's resolver is stood in for; everything else of the way out is real. Only the operator's
exemption lets a request reach our own loopback at all.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.broker import transport
from apps.domain.egress import read_blocks
from tests.sandboxd.outside import Upstream, certified

HOST = "api.kaizen.example"


class Resolver:
    """The answers for each name, in order; the last one stays."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {HOST: [["127.0.0.1"]]}
        self.asked: list[str] = []
        self.real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if not name.endswith(".example"):
            return self.real(host, port, *args, **named)
        self.asked.append(name)
        known = self.answers.get(name)
        if not known:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        found = known.pop(0) if len(known) > 1 else known[0]
        return [(0, 0, 0, "", (one, 0)) for one in found]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    """A resolver of the machine that is ours."""
    one = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", one)
    return one


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A certificate of the host that tests ask, and the authority that vouches for it."""
    return certified(tmp_path_factory.mktemp("tls"), HOST)


@pytest.fixture
def trusted(
    identity: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Iterator[None]:
    """A machine that trusts the tests' authority, and whose operator lets loopback be reached."""
    monkeypatch.setenv("SSL_CERT_FILE", str(identity[1]))
    settings.KAIZEN_EGRESS_EXEMPT = read_blocks(["127.0.0.0/8"])
    transport._trust.cache_clear()
    yield
    transport._trust.cache_clear()


@pytest.fixture
def upstream(
    identity: tuple[ssl.SSLContext, Path], resolver: Resolver, trusted: None
) -> Iterator[Callable[..., Upstream]]:
    """Start servers that speak TLS as the host, unless told to speak plainly."""
    made: list[Upstream] = []

    def start(answer: Callable[[socket.socket], None], *, plain: bool = False) -> Upstream:
        made.append(Upstream(answer, None if plain else identity[0]))
        return made[-1]

    yield start
    for one in made:
        one.close()
