"""Start the supervisor of sandboxes from the command line."""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import logging
import os
import platform
import resource
import signal
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from apps.domain.egress import BadNetwork, read_blocks
from apps.sandboxd.driver import BubblewrapDriver, Options
from apps.sandboxd.launch import RESULT_FD, Launcher
from apps.sandboxd.limits import CEILINGS, NAMES, BadLimit, Limits, read_limits
from apps.sandboxd.server import Server, Service
from apps.sandboxd.uids import UidRange, read_uid_range

# Python ignores these itself, and puts them back for the programs that it starts.
_PYTHONS_OWN = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_PR_SET_CHILD_SUBREAPER = 36


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m apps.sandboxd", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument(
        "--state", type=Path, required=True, help="a folder of the supervisor's own"
    )
    parser.add_argument("--runtime", type=Path, help="the Python that sandboxes run")
    parser.add_argument(
        "--store",
        type=Path,
        action="append",
        default=[],
        help="a folder of installed dependencies, by content address",
    )
    parser.add_argument("--bwrap", type=Path, help="the bubblewrap to use (also KAIZEN_BWRAP)")
    parser.add_argument(
        "--uid-range", type=read_uid_range, default=UidRange(), metavar="START:COUNT"
    )
    parser.add_argument(
        "--allow-uid",
        type=int,
        action="append",
        default=[],
        help="who may ask, besides us and root",
    )
    parser.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 2), help="at once")
    parser.add_argument(
        "--ready", type=int, default=1, help="how many sandboxes wait for the next program"
    )
    parser.add_argument(
        "--ready-seconds", type=int, default=30, help="for how long each of them waits"
    )
    parser.add_argument("--kernels", type=int, default=8, help="how many sandboxes may live on")
    parser.add_argument(
        "--kernels-of-one", type=int, default=3, help="how many of them one owner may have"
    )
    parser.add_argument("--node", default=platform.node(), help="the name of this machine")
    parser.add_argument("--queue", type=int, default=64, help="how many may wait")
    parser.add_argument(
        "--ceiling", action="append", default=[], metavar="NAME=VALUE",
        help=f"the most a job may have of: {', '.join(NAMES)}",
    )  # fmt: skip
    parser.add_argument(
        "--egress-exempt", action="append", default=[], metavar="BLOCK",
        help="a block of addresses that is not public and may be reached all the same",
    )  # fmt: skip
    parser.add_argument("--cgroup-required", action="store_true")
    return parser


def _ceilings(given: Sequence[str]) -> Limits:
    values: dict[str, object] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not value.isdecimal():
            raise BadLimit(f"{one!r} is not NAME=VALUE.")
        values[name] = int(value)
    return read_limits(values, CEILINGS)


def _start_clean() -> None:
    """Keep nothing that our parent left open or ignored, and adopt every orphaned sandbox."""
    os.closerange(RESULT_FD, 4096)
    # What is ignored here would be ignored inside as well; a shell's background jobs begin so.
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN and number not in _PYTHONS_OWN:
            signal.signal(number, signal.SIG_DFL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "The supervisor cannot adopt its sandboxes.")


def _lock(state: Path) -> int:
    state.mkdir(parents=True, exist_ok=True)
    number = os.open(state / "sandboxd.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"Another supervisor already uses {state}.") from None
    return number


def main(given: Sequence[str] | None = None) -> int:
    """Run the supervisor until it is told to stop."""
    parser = _arguments()
    said = parser.parse_args(given)
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s sandboxd %(levelname)s %(message)s",
    )
    try:
        ceilings = _ceilings(said.ceiling)
        exempt = read_blocks(said.egress_exempt)
    except (BadLimit, BadNetwork) as problem:
        parser.error(str(problem))
    if (
        said.jobs < 1
        or min(said.queue, said.ready, said.ready_seconds, said.kernels, said.kernels_of_one) < 0
    ):
        parser.error("--jobs has to be at least 1, and no other number below 0.")
    _start_clean()
    launcher = Launcher()
    lock = _lock(said.state)
    named = said.bwrap or (
        Path(os.environ["KAIZEN_BWRAP"]) if "KAIZEN_BWRAP" in os.environ else None
    )
    # As root each running sandbox has a user id of its own; one is left for the probe.
    most = said.uid_range.count - 1 if os.geteuid() == 0 else said.jobs + said.kernels + said.ready
    running = min(said.jobs, most)
    kernels = min(said.kernels, most - running)
    ready = min(said.ready, most - running - kernels)
    code = Path(__file__).resolve().parents[2]
    options = Options(
        state=said.state,
        bubblewrap=named,
        runtime=said.runtime,
        uids=said.uid_range,
        cgroup_required=said.cgroup_required,
        egress_exempt=exempt,
        node=said.node[:64],
        ready=ready,
        ready_seconds=said.ready_seconds,
        # Should one of these lie under /usr, sandboxes see an empty folder in its place.
        hidden=(code, said.state.resolve(), said.socket.resolve().parent, *_environments()),
        stores=tuple(store.resolve() for store in said.store),
    )
    service = Service(
        socket=said.socket,
        allowed=frozenset({os.geteuid(), 0, *said.allow_uid}),
        running=max(1, running),
        waiting=said.queue,
        ceilings=ceilings,
        kernels=kernels,
        ready=ready,
        ready_seconds=said.ready_seconds,
        kernels_of_one=said.kernels_of_one,
        node=said.node[:64],
    )
    said.socket.parent.mkdir(parents=True, exist_ok=True)
    driver = BubblewrapDriver(options, launcher)
    try:
        Server(service, driver).serve()
    finally:
        driver.close()
        os.close(lock)
    # Threads that still talk to an asker do not hold up the end; their sandboxes die with us.
    logging.shutdown()
    os._exit(0)


def _environments() -> tuple[Path, ...]:
    """Return where our own packages lie; what they are is nobody's business inside."""
    if sys.prefix != sys.base_prefix:
        return (Path(sys.prefix).resolve(),)
    places = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    return tuple(place for place in places if Path("/usr") in place.parents)


if __name__ == "__main__":
    sys.exit(main())
