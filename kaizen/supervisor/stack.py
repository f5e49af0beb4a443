"""Which processes make one machine's Kaizen, and what does each of them get to know?"""

import hashlib
import http.client
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import redis

from kaizen.runtimes import registry
from kaizen.supervisor.children import ChildSpec, Crew
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.ports import LOOPBACK, first_free, listen
from kaizen.supervisor.postgres import Postgres
from kaizen.supervisor.processes import ON_LINUX, end, is_same, started_at
from kaizen.supervisor.state import (
    CLONE,
    Layout,
    kept_secrets,
    read_json,
    runtime_store,
    write_private,
)
from kaizen.supervisor.valkey import Valkey

WEB_PORT = 8000
# One Python process computes on one core. The stores need the others.
WEB_NAMES = ("web", "web-2")
READY_SECONDS = 60.0
# Web and workers, then sandboxd, then the stores: below fifteen seconds in all.
STOP_PATIENCE = {2: 7.0, 1: 2.5, 0: 4.0}
# The longest name that every system accepts for a unix socket is a little longer than this.
_SOCKET_NAME = 90
_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
_OURS = ("KAIZEN_", "PKG_RUNNER_")
_MODEL_KEY = "KAIZEN_MODEL_KEY"


class Stack:
    """All processes of one clone: the two stores, sandboxd, the workers, beat and the web."""

    def __init__(self, layout: Layout, *, say: Callable[[str], None]) -> None:
        self._layout = layout
        self._say = say
        self._crew = Crew(say=say, changed=self._record)
        self._secrets = kept_secrets(layout)
        self._ready = False
        # Held here from now on, so that nobody else can take the port while the web server starts,
        # and visitors wait for a moment instead of being turned away while it starts again.
        self._listeners = listen(
            read_json(layout.var / "ports.json").get("web"), WEB_PORT, many=_web_processes()
        )
        self._ports = self._keep_ports()
        self.url = f"http://{LOOPBACK}:{self._ports['web']}"
        self.sign_ins: list[dict[str, str]] = []
        self._postgres: Postgres | None = None
        self._valkey: Valkey | None = None

    def start(self, pulse: Callable[[], None]) -> None:
        """Start everything in order; `pulse` is called while waiting and may raise to break off."""
        self._clear_leftovers()

        def beat() -> None:
            self._crew.demand_alive()
            pulse()

        self._start_stores(beat)
        environment = self._environment()
        write_private(self._layout.var / "environment.json", json.dumps(environment))
        self._say("Preparing the database.")
        prepared = self._prepare(environment, beat)
        self.sign_ins = [dict(entry) for entry in prepared["sign_ins"]]
        for problem in prepared["problems"]:
            self._say(str(problem))
        for spec in self._programs(environment, prepared["runtime"]):
            self._crew.start(spec)
        self._wait_for_programs(beat)
        self._ready = True
        self._record()

    def look(self) -> None:
        """Restart what has died."""
        self._crew.look()

    def stop(self) -> None:
        """Stop everything and take the marks of a running Kaizen away."""
        for listener in self._listeners:
            listener.close()
        self._crew.stop(STOP_PATIENCE)
        marks = [self._layout.var / name for name in ("running.json", "environment.json")]
        for mark in [*marks, *self._layout.var.glob("*.ready")]:
            mark.unlink(missing_ok=True)

    # --- the stores

    def _start_stores(self, beat: Callable[[], None]) -> None:
        layout, deadline = self._layout, time.monotonic() + READY_SECONDS

        def limited() -> None:
            beat()
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"The database or the broker did not answer within {READY_SECONDS:.0f} s; "
                    f"see {layout.logs}."
                )

        if os.environ.get("DATABASE_URL"):
            _demand_database(os.environ["DATABASE_URL"])
        else:
            self._say("Starting PostgreSQL.")
            self._postgres = Postgres(
                layout, password=self._secrets["postgres"], port=self._ports["postgres"]
            )
            self._postgres.prepare()
            self._crew.start(self._postgres.spec())
        if os.environ.get("REDIS_URL"):
            _demand_redis(os.environ["REDIS_URL"])
        else:
            self._say("Starting Valkey.")
            self._valkey = Valkey(
                layout, password=self._secrets["valkey"], port=self._ports["valkey"]
            )
            self._crew.start(self._valkey.spec())
            self._valkey.wait(limited)
        if self._postgres is not None:
            self._postgres.wait(limited)

    # --- what the programs get to know

    def _environment(self) -> dict[str, str]:
        """Return Kaizen's own variables: what a production machine would have set by hand."""
        port = self._ports["web"]
        ours = {name: value for name, value in os.environ.items() if name.startswith(_OURS)} | {
            "DATABASE_URL": self._postgres.url() if self._postgres else os.environ["DATABASE_URL"],
            "REDIS_URL": self._valkey.url if self._valkey else os.environ["REDIS_URL"],
            "KAIZEN_SECRET_KEY": self._secrets["secret_key"],
            "KAIZEN_AUDIT_KEY": self._secrets["audit_key"],
            "KAIZEN_STATE_DIR": str(self._layout.folder("state")),
            "KAIZEN_SANDBOXD_SOCKET": str(self._socket()),
            "KAIZEN_DEPENDENCIES_DIR": str(self._store()),
            "KAIZEN_ALLOWED_HOSTS": f"{LOOPBACK},localhost",
            "KAIZEN_ORIGINS": f"http://{LOOPBACK}:{port},http://localhost:{port}",
            "KAIZEN_INSECURE_HTTP": "1",
            "KAIZEN_LOG_CONSOLE": "1",
        }
        ours.setdefault("KAIZEN_REHEARSAL", "1")
        ours.setdefault("KAIZEN_NPM_REGISTRY", registry(self._layout.home / "runtime"))
        return ours

    def _socket(self) -> Path:
        """Return a name for the sandbox's socket that is short enough for the system."""
        place = self._layout.home / "sandboxd.sock"
        if len(os.fsencode(place)) <= _SOCKET_NAME:
            return place
        mark = hashlib.sha256(os.fsencode(self._layout.home)).hexdigest()[:10]
        folder = Path(tempfile.gettempdir()) / f"kaizen-{os.geteuid()}-{mark}"
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        if folder.is_symlink() or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise CannotStart(f"{folder} is not a private folder of ours: remove it.")
        return folder / "sandboxd.sock"

    def _store(self) -> Path:
        """Return where installed dependencies lie; sandboxes read them under ids of their own."""
        folder = self._layout.home / "dependencies"
        folder.mkdir(mode=0o755, exist_ok=True)
        return folder

    # --- the programs

    def _prepare(self, environment: dict[str, str], beat: Callable[[], None]) -> dict[str, Any]:
        report, runtime = self._layout.var / "prepared.json", self._layout.home / "runtime"
        report.unlink(missing_ok=True)
        spec = self._python(
            "prepare",
            [
                "-m", "kaizen.prepare", "--report", str(report),
                "--runtime", str(runtime), "--store", str(runtime_store()),
            ],
            environment,
            umask=0o022,
        )  # fmt: skip
        self._crew.run(spec, beat)
        prepared = read_json(report)
        report.unlink()
        return prepared

    def _programs(self, environment: dict[str, str], runtime: str | None) -> list[ChildSpec]:
        socket = Path(environment["KAIZEN_SANDBOXD_SOCKET"])
        plain = {name: value for name, value in environment.items() if name != _MODEL_KEY}
        worker = ["worker", "--pool", "threads", "--without-gossip", "--without-mingle"]
        worker += ["--without-heartbeat"]
        return [
            ChildSpec(
                name="sandboxd",
                argv=[
                    sys.executable, "-u", "-m", "apps.sandboxd", "--socket", str(socket),
                    "--state", str(self._layout.folder("sandboxd")),
                    "--store", str(self._store()),
                    *(["--runtime", runtime] if runtime else []),
                    *_exempted(environment),
                    *_ready(environment),
                ],
                # Nothing to steal: no key, no address, no password.
                env={},
                log=self._layout.log("sandboxd"),
                cwd=CLONE,
                rank=1,
                before=lambda: socket.unlink(missing_ok=True),
                ready=socket.exists,
            ),
            self._celery(
                "worker-turns",
                [*worker, "-Q", "turns,sweeps", "-c", "16", "-n", "turns@%h"],
                # Only this worker talks to the model.
                environment | {"KAIZEN_DB_POOL": "16"},
            ),
            self._celery(
                "worker-calls", [*worker, "-Q", "calls,sweeps", "-c", "4", "-n", "calls@%h"], plain
            ),
            self._celery(
                "beat",
                [
                    "beat", "--pidfile", "",
                    # In memory: every entry is a short interval, and no file can be damaged.
                    "--scheduler", "celery.beat:Scheduler",
                ],
                plain,
            ),
            *(
                self._web(name, listener.fileno(), plain)
                for name, listener in zip(WEB_NAMES, self._listeners, strict=False)
            ),
        ]  # fmt: skip

    def _web(self, name: str, listener: int, environment: dict[str, str]) -> ChildSpec:
        """Return how to run one web server on its own listener of the one port."""
        return self._python(
            name,
            [
                "-m", "uvicorn", "kaizen.asgi:application",
                "--fd", str(listener), "--lifespan", "off",
                "--ws-per-message-deflate", "false", "--ws-max-size", "65536",
                "--timeout-graceful-shutdown", "5",
                "--no-proxy-headers", "--no-server-header", "--no-access-log",
                "--log-level", "warning",
            ],
            environment,
            pass_fds=(listener,),
            # One visit would be answered by any of them.
            ready=lambda: all(_answers(self._ports["web"]) for _ in range(4)),
        )  # fmt: skip

    def _celery(self, name: str, arguments: list[str], environment: dict[str, str]) -> ChildSpec:
        """Return how to run one Celery program, which touches a file as soon as it is ready."""
        mark = self._layout.var / f"{name}.ready"
        return self._python(
            name,
            ["-m", "celery", "-A", "kaizen.celery", *arguments],
            environment | {"KAIZEN_READY_FILE": str(mark)},
            before=lambda: mark.unlink(missing_ok=True),
            ready=mark.exists,
        )

    def _python(
        self, name: str, arguments: list[str], environment: dict[str, str], **options: Any
    ) -> ChildSpec:
        inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        return ChildSpec(
            name=name,
            argv=[sys.executable, *arguments],
            env=inherited | environment | {"PYTHONUNBUFFERED": "1", "TZ": "UTC"},
            log=self._layout.log(name),
            cwd=CLONE,
            **options,
        )

    def _wait_for_programs(self, beat: Callable[[], None]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while late := self._crew.unready():
            beat()
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"Not ready within {READY_SECONDS:.0f} s: {', '.join(late)}; "
                    f"see {self._layout.logs}."
                )

    # --- marks

    def _keep_ports(self) -> dict[str, int]:
        path = self._layout.var / "ports.json"
        kept = read_json(path)
        ports = {
            "web": self._listeners[0].getsockname()[1],
            "postgres": first_free(kept.get("postgres")),
            "valkey": first_free(kept.get("valkey")),
        }
        if ports != kept:
            write_private(path, json.dumps(ports))
        return ports

    def _record(self) -> None:
        """Write down who runs where, so that others find the processes by name."""
        pid = os.getpid()
        record: dict[str, Any] = {
            "ready": self._ready,
            "url": self.url,
            "pid": pid,
            "mark": started_at(pid),
            "logs": str(self._layout.logs),
            "sign_ins": self.sign_ins,
            "children": {
                child.spec.name: {"pid": child.process.pid, "mark": child.mark}
                for child in self._crew.children
            },
        }
        write_private(self._layout.var / "running.json", json.dumps(record, indent=2))

    def _clear_leftovers(self) -> None:
        """End what a killed supervisor left behind; on Linux it has mostly ended by itself."""
        children = read_json(self._layout.var / "running.json").get("children", {})
        alive = [int(c["pid"]) for c in children.values() if is_same(int(c["pid"]), c["mark"])]
        if alive:
            self._say("Waiting for what an earlier run left behind.")
            end(alive, patience=4.0)


def _web_processes() -> int:
    """Return how many web servers run: one for each core that we may use, up to a few."""
    # Elsewhere several listeners on one port do not share its visitors.
    return min(len(WEB_NAMES), len(os.sched_getaffinity(0))) if ON_LINUX else 1


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", "/healthz", headers={"Host": LOOPBACK})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _exempted(environment: dict[str, str]) -> list[str]:
    blocks = environment.get("KAIZEN_EGRESS_EXEMPT", "").split(",")
    return [
        word for block in blocks if block.strip() for word in ("--egress-exempt", block.strip())
    ]


def _ready(environment: dict[str, str]) -> list[str]:
    many = environment.get("KAIZEN_SANDBOXES_READY", "").strip()
    return ["--ready", many] if many else []


def _demand_database(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.Error as problem:
        reason = str(problem).strip().splitlines()[-1]
        raise CannotStart(
            f"DATABASE_URL is set, but the database at {urlsplit(url).hostname} does not let us in "
            f"({reason}). Start it, or unset DATABASE_URL to use the embedded PostgreSQL."
        ) from None


def _demand_redis(url: str) -> None:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5) as client:
            client.ping()
    except (redis.RedisError, ValueError) as problem:
        raise CannotStart(
            f"REDIS_URL is set, but the server there does not let us in ({problem}). "
            "Start it, or unset REDIS_URL to use the embedded Valkey."
        ) from None
