"""An outside world for tests of the network: names, upstreams, and certificates of their own."""

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.sandboxd import daemon
from tests.sandboxd.daemon import Daemon

DOOR = "127.0.0.0/8"


class Names:
    """A resolver for the machine under test: one file of answers, and a list of what was asked.

    A line is a name and its addresses; a name with several lines gets the next one each time.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "names"
        self.asked_file = folder / "asked"
        self._lines: list[str] = []
        self.asked_file.touch()
        self.asked_file.chmod(0o666)
        self.file.touch()

    def add(self, name: str, *addresses: str) -> None:
        """Answer a name with these addresses, after any answer added before."""
        self._lines.append(" ".join([name, *addresses]))
        self.file.write_text("\n".join(self._lines))

    def asked(self) -> list[str]:
        """Return the names that were looked up, in order."""
        return self.asked_file.read_text().split()


# Stands in for the resolver of the machine, in the supervisor's own process.
_WITH_NAMES = """
import socket, sys
names, asked = sys.argv.pop(1), sys.argv.pop(1)
def getaddrinfo(host, port, *_, **__):
    with open(asked, "a") as log:
        log.write(host + "\\n")
    with open(asked) as log:
        turn = log.read().split().count(host) - 1
    with open(names) as known:
        lines = [line.split()[1:] for line in known if line.split()[0] == host]
    if not lines:
        raise socket.gaierror(-2, "no such name")
    return [(0, 0, 0, "", (one, 0)) for one in lines[min(turn, len(lines) - 1)]]
socket.getaddrinfo = getaddrinfo
from apps.sandboxd import __main__
sys.exit(__main__.main())
"""


class NamedDaemon(Daemon):
    """A supervisor on a machine whose resolver is ours, and that may reach the test's loopback."""

    def __init__(self, home: Path, *options: str, names: Names) -> None:
        self.program = ("-c", _WITH_NAMES, str(names.file), str(names.asked_file))
        super().__init__(home, "--egress-exempt", DOOR, *options)


class UserDaemon(NamedDaemon, daemon.UserDaemon):
    """The same one, started as an ordinary user by root."""


class Upstream:
    """A server on our own loopback: hears one request at a time and answers as it is told."""

    def __init__(self, answer: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None):
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listening.getsockname()[1]
        self.reached = 0
        self._answer, self._tls = answer, tls
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                return
            self.reached += 1
            threading.Thread(target=self._one, args=(link,), daemon=True).start()

    def _one(self, link: socket.socket) -> None:
        try:
            with link:
                link.settimeout(20)
                if self._tls is None:
                    self._answer(link)
                else:
                    with self._tls.wrap_socket(link, server_side=True) as secure:
                        self._answer(secure)
        except OSError:
            pass  # the other end may break off whenever it likes

    def close(self) -> None:
        """Listen no longer."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def read_head(link: socket.socket) -> bytes:
    """Read the head of an HTTP request."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = link.recv(4096)
        if not chunk:
            break
        data += chunk
    return data


def say(body: bytes, status: str = "200 OK") -> Callable[[socket.socket], None]:
    """Answer every request with one body."""

    def answer(link: socket.socket) -> None:
        read_head(link)
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        link.sendall(head.encode() + body)

    return answer


def certified(folder: Path, *names: str) -> tuple[ssl.SSLContext, Path]:
    """Make an authority and a server certificate for names; return the server's side, and the CA.

    `folder` belongs to the test alone.
    """
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("authority", now).public_key(authority_key.public_key())
    authority = authority.issuer_name(_named("authority")).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    ours = _certificate(names[0], now).public_key(key.public_key())
    ours = ours.issuer_name(_named("authority")).add_extension(
        x509.SubjectAlternativeName([_name(one) for one in names]), critical=False
    )
    ca_file, chain, key_file = folder / "ca.pem", folder / "server.pem", folder / "server.key"
    pem = serialization.Encoding.PEM
    ca_file.write_bytes(authority.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    chain.write_bytes(ours.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    key_file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key_file)
    return context, ca_file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _name(one: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(one))
    except ValueError:
        return x509.DNSName(one)


def _certificate(name: str, now: datetime.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
    )
