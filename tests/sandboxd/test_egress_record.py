"""What a call reached is written down, however much noise it makes and however it hangs up."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from apps.domain.egress import Crossing, Denied, allowlist, read_blocks
from apps.sandboxd.egress import Egress
from apps.sandboxd.egress_route import Resolver, Routes
from apps.sandboxd.jobs import MAX_CROSSINGS

HOST = "api.kaizen.example"
RESET = struct.pack("ii", 1, 0)


class Patient:
    """Somebody who waits."""

    def left(self) -> float:
        """Return enough time."""
        return 10.0

    def gone(self) -> bool:
        """Stay."""
        return False


@pytest.fixture
def reset() -> threading.Event:
    """Set once the program has hung up."""
    return threading.Event()


@pytest.fixture
def outside() -> Iterator[socket.socket]:
    """Some server outside."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def egress(reset: threading.Event, outside: socket.socket) -> Iterator[Egress]:
    """The way out of a call, whose lookups wait until its program has hung up."""

    def lookup(_: str) -> list[str]:
        reset.wait(10)
        return ["127.0.0.1"]

    routes = Routes(Resolver(lookup), read_blocks(["127.0.0.0/8"]))
    lookups = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    lookups.bind(("127.0.0.1", 0))
    network = allowlist([f"{HOST}:{outside.getsockname()[1]}"])
    one = Egress(network, routes, socket.create_server(("127.0.0.1", 0)), lookups, ())
    yield one
    reset.set()
    one.close()


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()


def test_what_was_reached_is_told_however_much_was_refused_before(egress: Egress) -> None:
    for number in range(2 * MAX_CROSSINGS):
        egress._note(Crossing(f"h{number}.example", 0, "", "host_not_listed"))
    reached = [Crossing(HOST, port, "203.0.114.1", "allowed", 1, 2) for port in (443, 8443)]
    for one in reached:
        egress._note(one)
    told = egress.crossings()
    assert len(told) == MAX_CROSSINGS
    assert list(told[-2:]) == reached
    for number in range(2 * MAX_CROSSINGS):
        egress._note(Crossing(HOST, 443, "203.0.114.1", "allowed", number, 0))
    assert len(egress.crossings()) == MAX_CROSSINGS
    assert set(reached) <= set(egress.crossings())


def test_a_connection_whose_program_hung_up_at_once_is_told(
    egress: Egress, reset: threading.Event, outside: socket.socket
) -> None:
    port = outside.getsockname()[1]
    program = socket.create_connection(egress.proxy.getsockname())
    program.sendall(f"CONNECT {HOST}:{port} HTTP/1.1\r\n\r\n".encode())
    time.sleep(0.3)
    program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    program.close()
    reset.set()
    assert eventually(lambda: bool(egress.crossings()))
    (told,) = egress.crossings()
    assert (told.host, told.port, told.address) == (HOST, port, "127.0.0.1")


def test_a_connection_that_finds_no_thread_is_refused_and_the_call_ends_well(
    egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with socket.create_connection(egress.proxy.getsockname()) as program:
        program.settimeout(10)
        assert program.recv(1) == b""
    monkeypatch.undo()
    assert eventually(lambda: bool(egress.crossings()))
    assert [one.verdict for one in egress.crossings()] == ["too_many_connections"]
    egress.close()
    assert egress.proxy.fileno() == -1


def test_a_lookup_that_finds_no_thread_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    resolver = Resolver(lambda _: ["203.0.114.1"])
    for _ in range(200):
        with pytest.raises(Denied, match="Too many names"):
            resolver.addresses(HOST, Patient())
    monkeypatch.undo()
    assert resolver.addresses(HOST, Patient()) == ["203.0.114.1"]


def test_what_is_taken_is_told_once_and_what_is_open_as_well(
    egress: Egress, reset: threading.Event, outside: socket.socket
) -> None:
    port = outside.getsockname()[1]
    reset.set()
    egress._note(Crossing("other.example", 0, "", "host_not_listed"))
    with socket.create_connection(egress.proxy.getsockname()) as program:
        program.sendall(f"CONNECT {HOST}:{port} HTTP/1.1\r\n\r\n".encode())
        assert program.recv(100).startswith(b"HTTP/1.1 200")
        assert [(one.host, one.verdict) for one in egress.take()] == [
            (HOST, "allowed"),
            ("other.example", "host_not_listed"),
        ]
        assert egress.take() == ()
        program.sendall(b"seven b")
        link, _ = outside.accept()
        assert link.recv(100) == b"seven b"
        link.close()
    assert eventually(lambda: bool(egress.crossings()))
    assert [(one.host, one.sent) for one in egress.take()] == [(HOST, 7)]
