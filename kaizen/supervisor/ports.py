"""Which loopback ports are ours to listen on?"""

import secrets
import socket

LOOPBACK = "127.0.0.1"
_LOWEST, _HIGHEST = 20_000, 32_000
_BACKLOG = 512


def is_free(port: int) -> bool:
    """Tell whether nobody listens on a loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a connection that lingers after a restart is no listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port that nobody uses now, below those that the system lends to connections."""
    while True:
        port = _LOWEST + secrets.randbelow(_HIGHEST - _LOWEST)
        if is_free(port):
            return port


def first_free(*preferred: int | None) -> int:
    """Return the first free port among the preferred ones, else any free port."""
    for port in preferred:
        if port is not None and is_free(port):
            return port
    return free_port()


def listen(*preferred: int | None, many: int = 1) -> list[socket.socket]:
    """Listen on the first free port among the preferred ones, else on any, and hold it.

    Of several listeners on one port the system chooses one for each visitor, evenly by chance.
    """
    candidates = [port for port in preferred if port is not None]
    while True:
        listeners: list[socket.socket] = []
        port = candidates.pop(0) if candidates else free_port()
        try:
            for _ in range(many):
                listeners.append(_listener(port, alone=not listeners, shared=many > 1))
        except OSError:
            # Someone else's, perhaps since a moment ago: try the next.
            for listener in listeners:
                listener.close()
            continue
        return listeners


def _listener(port: int, *, alone: bool, shared: bool) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not alone:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((LOOPBACK, port))
        if shared:
            # Only now for the first: a port that others share already is not ours to join.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Inherited by what it accepts. The server, given only a number, does not see that this is
        # TCP and leaves it off: each answer would wait 40 ms for the other side's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
