"""A program reaches nobody outside: no network, and no socket of the host."""

import secrets
import socket
from collections.abc import Iterator

import pytest

from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


@pytest.fixture
def listeners() -> Iterator[tuple[int, int, str]]:
    """A TCP port, a UDP port and an abstract socket of the host that would answer."""
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(0.2)
    name = f"kaizen-{secrets.token_hex(8)}"
    abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    abstract.bind(f"\0{name}")
    abstract.listen()
    yield tcp.getsockname()[1], udp.getsockname()[1], name
    with pytest.raises(TimeoutError):
        udp.recv(10)
    for one in (tcp, udp, abstract):
        one.close()


def test_no_network_and_no_socket_of_the_host_is_reached(
    daemon: Daemon, listeners: tuple[int, int, str]
) -> None:
    tcp, udp, name = listeners
    told = daemon.told(
        f"""
        import json, socket
        reached = []
        def attempt(what, do):
            try:
                do()
                reached.append(what)
            except OSError:
                pass
        def connect(family, address):
            with socket.socket(family, socket.SOCK_STREAM) as link:
                link.settimeout(2)
                link.connect(address)
        attempt("loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", {tcp})))
        for port in (22, 5432, 6379, 8000):
            attempt(port, lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
        attempt("metadata", lambda: connect(socket.AF_INET, ("169.254.169.254", 80)))
        attempt("public", lambda: connect(socket.AF_INET, ("192.0.2.1", 443)))
        attempt("public 6", lambda: connect(socket.AF_INET6, ("2001:db8::1", 443)))
        attempt("dns", lambda: socket.getaddrinfo("example.org", 443))
        attempt("abstract", lambda: connect(socket.AF_UNIX, "\\0{name}"))
        for path in ("/run/docker.sock", "/var/run/postgresql/.s.PGSQL.5432",
                     "/run/dbus/system_bus_socket", {str(daemon.socket)!r}):
            attempt(path, lambda: connect(socket.AF_UNIX, path))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            attempt("udp far", lambda: link.sendto(b"x", ("192.0.2.1", 53)))
            attempt("own udp", lambda: link.sendto(b"x", ("127.0.0.1", {udp})))
        lines = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
        print(json.dumps([reached, lines]))
        """
    )
    reached, interfaces = told
    # A datagram to its own loopback leaves, but nobody of the host receives it.
    assert set(reached) <= {"own udp"}
    assert interfaces == ["lo"]
