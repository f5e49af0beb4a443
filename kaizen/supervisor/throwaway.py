"""A PostgreSQL and a Valkey for one test run or one check, gone without a trace afterwards.

`python -m kaizen.supervisor.throwaway COMMAND ...` runs a command beside them; with `--settings`
it only gives the command an environment that settings can load from.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from kaizen.supervisor.children import Crew
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.ports import free_port
from kaizen.supervisor.postgres import Postgres
from kaizen.supervisor.state import CLONE, Layout, open_layout
from kaizen.supervisor.valkey import Valkey

START_SECONDS = 60.0
_STOP = {0: 5.0}


def settings_environment(state: Path) -> dict[str, str]:
    """Return everything but the two stores, as a production machine would set it."""
    return {
        "KAIZEN_SECRET_KEY": secrets.token_urlsafe(48),
        "KAIZEN_AUDIT_KEY": secrets.token_urlsafe(48),
        "KAIZEN_STATE_DIR": str(state),
        "KAIZEN_SANDBOXD_SOCKET": str(state / "sandboxd.sock"),
        "KAIZEN_ALLOWED_HOSTS": "kaizen.example",
    }


class Throwaway:
    """The embedded pair in a temporary folder; addresses are known before anything starts.

    Nothing of it is worth a sync to disk, unless what runs beside it measures just that.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self.place = Path(tempfile.mkdtemp(prefix="kaizen-"))
        self._layout: Layout = open_layout(self.place)
        self._password = secrets.token_urlsafe(24)
        self._ports = free_port(), free_port()
        self._crew: Crew | None = None
        # What the caller brings is used as it is, and read now, before anyone exports ours.
        self._given = {
            name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL") if os.environ.get(name)
        }

    def environment(self) -> dict[str, str]:
        """Return an environment for settings, with stores that the caller set taking precedence."""
        postgres, valkey = self._ports
        state = self._layout.folder("state")
        ours = {
            "DATABASE_URL": f"postgresql://kaizen:{self._password}@127.0.0.1:{postgres}/kaizen",
            "REDIS_URL": f"redis://:{self._password}@127.0.0.1:{valkey}/0",
        }
        return settings_environment(state) | ours | self._given

    def start(self) -> None:
        """Start what the caller's environment does not bring; doing it twice is harmless."""
        if self._crew is not None:
            return
        self._crew = crew = Crew(say=_say, changed=lambda: None)
        deadline = time.monotonic() + START_SECONDS

        def pulse() -> None:
            crew.demand_alive()
            if time.monotonic() > deadline:
                raise CannotStart(f"The test services did not answer within {START_SECONDS:.0f} s.")
            time.sleep(0.05)

        if "DATABASE_URL" not in self._given:
            server = Postgres(
                self._layout, password=self._password, port=self._ports[0], durable=self._durable
            )
            server.prepare()
            crew.start(server.spec())
            server.wait(pulse)
        if "REDIS_URL" not in self._given:
            valkey = Valkey(self._layout, password=self._password, port=self._ports[1])
            crew.start(valkey.spec())
            valkey.wait(pulse)

    def stop(self) -> None:
        """Stop the servers and remove every file of theirs."""
        if self._crew is not None:
            self._crew.stop(_STOP)
            self._crew = None
        shutil.rmtree(self.place)

    def __enter__(self) -> "Throwaway":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


def main(arguments: list[str]) -> int:
    """Run one command with throwaway services, or with `--settings` just an environment."""
    only_settings = arguments[:1] == ["--settings"]
    command = arguments[1:] if only_settings else arguments
    if not command:
        _say("Usage: python -m kaizen.supervisor.throwaway [--settings] COMMAND [ARGUMENT ...]")
        return 2
    # A terminal's Ctrl-C reaches the command; we stay to clean up after it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with Throwaway() as services:
        environment = services.environment()
        if not only_settings:
            services.start()
        return subprocess.run(
            command,
            env={**os.environ, **environment},
            cwd=CLONE,
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CannotStart as problem:
        sys.exit(str(problem))
