"""Which loopback ports are ours to listen on?"""

import socket

LOOPBACK = "127.0.0.1"


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
    """Return a port that nobody uses at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def first_free(*preferred: int | None) -> int:
    """Return the first free port among the preferred ones, else any free port."""
    for port in preferred:
        if port is not None and is_free(port):
            return port
    return free_port()
