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


def listen(*preferred: int | None) -> socket.socket:
    """Listen on the first free port among the preferred ones, else on any, and hold it."""
    candidates = [port for port in preferred if port is not None]
    while True:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, candidates.pop(0) if candidates else free_port()))
            listener.listen(_BACKLOG)
        except OSError:
            # Someone else's, perhaps since a moment ago: try the next.
            listener.close()
            continue
        return listener
