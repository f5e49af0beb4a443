"""Node's own ways to take too much, or to open a door, end at the same walls."""

import socket
import threading
from dataclasses import replace

import pytest

from apps.sandbox.spec import Limits
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox

NODE = replace(Limits.for_node(), wall_ms=20_000, cpu_ms=10_000)


def test_hundreds_of_workers_that_spin_are_ended(daemon: Daemon) -> None:
    result = daemon.run(
        "node", "-e",
        "const {Worker} = require('worker_threads');"
        "for (let i = 0; i < 500; i++)"
        "  try { new Worker('while (true);', {eval: true}).on('error', () => {}); } catch {}",
        runtimes=("node",), limits=replace(NODE, wall_ms=5_000, cpu_ms=3_000),
    )  # fmt: skip
    assert result.reason in ("exit", "cpu_limit", "memory_limit", "wall_timeout"), result
    assert daemon.quiet()


@pytest.mark.parametrize(
    "bomb",
    [
        "const held = []; for (;;) held.push(Buffer.alloc(32 << 20, 1));",
        "const held = []; for (;;) held.push(new Array(1e6).fill(0).map(() => ({})));",
        "const held = []; for (;;) held.push(new SharedArrayBuffer(32 << 20)),"
        " new Uint8Array(held.at(-1)).fill(1);",
        "const m = new WebAssembly.Memory({initial: 1, maximum: 32768}); for (;;)"
        " { m.grow(256); new Uint8Array(m.buffer).fill(1, -256 * 65536); }",
        "const {spawn} = require('child_process'); for (let i = 0; i < 12; i++)"
        " spawn(process.execPath, ['-e', 'const b = Buffer.alloc(100 << 20, 1);"
        " setInterval(() => b, 9)']); setTimeout(() => {}, 60000);",
    ],
    ids=["buffers", "objects", "shared", "wasm", "children"],
)
def test_memory_bombs_of_node_end_the_call(daemon: Daemon, bomb: str) -> None:
    result = daemon.run("node", "-e", bomb, runtimes=("node",), limits=replace(NODE, cpu_ms=5_000))
    # Some make Node collect its garbage for ever, just below the limit.
    assert result.reason in ("exit", "memory_limit", "cpu_limit", "wall_timeout"), result
    assert result.stats.max_rss_kib < 800 * 1024
    assert daemon.quiet()


def test_the_inspector_listens_to_nobody_outside(daemon: Daemon) -> None:
    listens = threading.Event()
    refused: list[bool] = []

    def heard(stream: str, chunk: bytes) -> None:
        if b"Debugger listening" in chunk:
            listens.set()

    def knock() -> None:
        listens.wait(15)
        for port in (9229, 9339):
            with socket.socket() as link:
                link.settimeout(2)
                refused.append(link.connect_ex(("127.0.0.1", port)) != 0)

    knocking = threading.Thread(target=knock)
    knocking.start()
    result = daemon.run(
        "node", "-e", "process.kill(process.pid, 'SIGUSR1'); setTimeout(() => {}, 2500)",
        runtimes=("node",), limits=NODE, on_output=heard,
    )  # fmt: skip
    knocking.join()
    assert result.reason == "ok", result
    assert listens.is_set()
    assert refused == [True, True]


def test_node_reaches_nothing_either(daemon: Daemon) -> None:
    result = daemon.run(
        "node", "--input-type=module", "-e",
        "import net from 'node:net'; import dns from 'node:dns/promises'; import fs from 'node:fs';"
        "const reached = [];"
        "const knock = (o) => new Promise((done) => { const s = net.connect(o);"
        "  s.on('connect', () => { reached.push(o); s.destroy(); done(); });"
        "  s.on('error', () => done()); });"
        "for (const port of [22, 5432, 6379, 8000]) await knock({host: '127.0.0.1', port});"
        "await knock({host: '169.254.169.254', port: 80});"
        "await knock({path: '/run/docker.sock'});"
        "try { await dns.lookup('example.org'); reached.push('dns'); } catch {}"
        "try { await fetch('http://192.0.2.1/'); reached.push('fetch'); } catch {}"
        "for (const p of ['/etc/shadow', '/root', '/home', '/sys', '/run', '/var'])"
        "  if (fs.existsSync(p)) reached.push(p);"
        "for (const k of Object.keys(process.env))"
        "  if (/SECRET|DATABASE|REDIS|TOKEN/.test(k)) reached.push(k);"
        "console.log(JSON.stringify(reached));",
        runtimes=("node",), limits=NODE,
    )  # fmt: skip
    assert result.stdout == b"[]\n", result
