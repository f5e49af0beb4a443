"""Where does one clone keep its state, its secrets and its marks while it runs?"""

import fcntl
import json
import os
import pwd
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.processes import is_same

CLONE = Path(__file__).resolve().parent.parent.parent
ROOT_HOMES = Path("/var/lib/kaizen")
RUNTIME_STORE = ROOT_HOMES / "runtimes"
_LOGS_KEPT = 3
_LOG_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True)
class Account:
    """An existing system account, for servers that refuse to run as root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Layout:
    """The two folders of a clone: its own `var`, and the home of what other accounts must reach."""

    var: Path
    home: Path
    account: Account | None

    @property
    def logs(self) -> Path:
        """Return the folder of the children's logs."""
        return self.var / "logs"

    def log(self, name: str) -> Path:
        """Return the log file of one child."""
        return self.logs / f"{name}.log"

    def folder(self, name: str, *, owned: bool = False) -> Path:
        """Return a private folder in the home, made on first use, owned by the account if asked."""
        place = self.home / name
        place.mkdir(mode=0o700, exist_ok=True)
        if owned and self.account is not None:
            os.chown(place, self.account.uid, self.account.gid)
        return place


def open_layout(var: Path | None = None) -> Layout:
    """Find or make the folders of this clone, or of a throwaway run that lives under `var`."""
    as_root = os.geteuid() == 0
    place = var or CLONE / "var"
    _make_private(place)
    if not as_root:
        home = place
    elif var is not None:
        home = place / "home"
        # Traversable, not listable: the unprivileged account must reach its own folders.
        place.chmod(0o711)
        _make_folder(home, 0o711)
    else:
        home = _root_home(place)
    _make_folder(place / "logs", 0o700)
    return Layout(var=place, home=home, account=unprivileged_account() if as_root else None)


def runtime_store() -> Path:
    """Return where the pinned runtimes of sandboxes lie: each is named by its digest, so every
    clone of root's shares them, and a throwaway run uses those of its clone.
    """
    if os.geteuid() != 0:
        _make_private(CLONE / "var")
        store = CLONE / "var" / "runtimes"
    else:
        _make_folder(ROOT_HOMES, 0o711)
        store = RUNTIME_STORE
    _make_folder(store, 0o755)
    if store.stat().st_uid != os.geteuid():
        raise CannotStart(f"{store} belongs to user id {store.stat().st_uid}: move it away.")
    return store


def unprivileged_account() -> Account:
    """Return the account that stands in for root where a server refuses root."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise CannotStart(
            "PostgreSQL refuses to run as root and this machine has no account named nobody: "
            "start Kaizen as an ordinary user, or set DATABASE_URL and REDIS_URL."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _root_home(var: Path) -> Path:
    """Follow the pointer in `var` to the home of a clone that runs as root."""
    pointer = var / "home"
    _make_folder(ROOT_HOMES, 0o711)
    if pointer.exists():
        home = Path(pointer.read_text().strip())
        if home.parent != ROOT_HOMES:
            raise CannotStart(f"{pointer} should name a folder in {ROOT_HOMES}; remove it.")
    else:
        home = ROOT_HOMES / secrets.token_hex(6)
        write_private(pointer, f"{home}\n")
    _make_folder(home, 0o711)
    if home.stat().st_uid != 0:
        raise CannotStart(f"{home} must belong to root.")
    return home


def _make_private(place: Path) -> None:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotStart(f"Kaizen cannot make {place}: {problem.strerror}.") from None
    owner = place.stat().st_uid
    if owner != os.geteuid():
        raise CannotStart(
            f"{place} belongs to user id {owner}: run Kaizen as that user, or move the folder away."
        )
    # It may have been made by somebody else's hand, and open to all.
    place.chmod(0o700)


def _make_folder(place: Path, mode: int) -> None:
    try:
        place.mkdir(mode=mode, exist_ok=True)
        place.chmod(mode)
    except OSError as problem:
        raise CannotStart(f"Kaizen cannot make {place}: {problem.strerror}.") from None


def write_private(path: Path, text: str, *, owner: Account | None = None) -> None:
    """Write a file that only its owner reads, complete or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    # The folder may belong to the account: what it put there in wait is neither written nor given.
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        if owner is not None:
            os.fchown(file.fileno(), owner.uid, owner.gid)
    fresh.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return a small JSON object that we wrote, or an empty one if there is none."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise CannotStart(f"{path} is damaged: restore it, or remove it to begin anew.") from None
    if not isinstance(content, dict):
        raise CannotStart(f"{path} is damaged: restore it, or remove it to begin anew.")
    return content


def kept_secrets(layout: Layout) -> dict[str, str]:
    """Return the generated passwords and keys of this clone, made once."""
    path = layout.var / "secrets.json"
    kept = read_json(path)
    wanted = {"postgres": 32, "valkey": 32, "secret_key": 48, "audit_key": 48}
    missing = {
        name: secrets.token_urlsafe(size) for name, size in wanted.items() if name not in kept
    }
    if missing:
        kept.update(missing)
        write_private(path, json.dumps(kept))
    return {name: str(kept[name]) for name in wanted}


def rotate_logs(layout: Layout) -> None:
    """Set large logs aside at a start, keeping the last few of each."""
    for log in layout.logs.glob("*.log"):
        if log.stat().st_size < _LOG_BYTES:
            continue
        for number in range(_LOGS_KEPT - 1, 0, -1):
            older = log.with_suffix(f".log.{number}")
            if older.exists():
                older.replace(log.with_suffix(f".log.{number + 1}"))
        log.replace(log.with_suffix(".log.1"))


class Lock:
    """The mark that one supervisor runs for this clone; the kernel drops it when we die."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Take the lock, or say where the other supervisor serves."""
        file = (self._layout.var / "lock").open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise CannotStart(_already(read_json(self._layout.var / "running.json"))) from None
        self._file = file

    def release(self) -> None:
        """Let the next supervisor in."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _already(running: Mapping[str, Any]) -> str:
    if running.get("ready"):
        return (
            f"Kaizen is already running at {running['url']} (process {running['pid']}): "
            "stop it there with Ctrl-C, or from here with `make down`."
        )
    return "Another `make up` of this clone is starting or stopping right now: wait for it."


def running_environment(var: Path | None = None) -> dict[str, str]:
    """Return the environment of the supervisor that runs for this clone, or an empty one."""
    place = var or CLONE / "var"
    try:
        running = read_json(place / "running.json")
        if is_same(int(running.get("pid", 0)), running.get("mark")):
            return {
                name: str(value) for name, value in read_json(place / "environment.json").items()
            }
    except PermissionError:
        # Another user's clone: its secrets are not for us.
        return {}
    return {}


def adopt_running_environment() -> bool:
    """Let a command run inside the environment of the running `up`, unless it brings its own.

    Return whether there is any environment to run in.
    """
    if not {"DATABASE_URL", "KAIZEN_SECRET_KEY"} & os.environ.keys():
        os.environ.update(running_environment())
    return "DATABASE_URL" in os.environ
