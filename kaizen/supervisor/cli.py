"""`manage.py up`: start everything on this machine, watch it, and stop it cleanly."""

import argparse
import os
import signal
import time
from pathlib import Path

from kaizen.supervisor.errors import CannotStart, GaveUp, StopAsked
from kaizen.supervisor.processes import is_same
from kaizen.supervisor.stack import WEB_PORT, Stack
from kaizen.supervisor.state import CLONE, Layout, Lock, open_layout, read_json, rotate_logs

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOP_SECONDS = 20.0


class StopSwitch:
    """Remembers that a stop was asked for, so that it happens at a moment of our choosing."""

    def __init__(self) -> None:
        self.asked = False

    def install(self) -> None:
        """Listen for Ctrl-C, a service manager's stop, and a closed terminal."""
        for number in _STOP_SIGNALS:
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def pulse(self) -> None:
        """Pause for a moment while waiting, and break off if a stop was asked for."""
        if self.asked:
            raise StopAsked
        time.sleep(0.05)


def main(arguments: list[str]) -> int:
    """Run or stop this clone's processes and return the exit code."""
    parser = argparse.ArgumentParser(prog="manage.py up", description=__doc__)
    parser.add_argument("--stop", action="store_true", help="stop the running processes")
    parser.add_argument(
        "--var", type=Path, help="keep everything below this folder instead of var/"
    )
    options = parser.parse_args(arguments)
    try:
        if options.stop:
            return stop(options.var or CLONE / "var")
        return up(open_layout(options.var.resolve() if options.var else None))
    except CannotStart as problem:
        say(str(problem))
        return 1


def up(layout: Layout) -> int:
    """Run everything until someone asks for a stop or a child cannot be kept alive."""
    lock, switch = Lock(layout), StopSwitch()
    lock.take()
    switch.install()
    rotate_logs(layout)
    stack = Stack(layout, say=say)
    code = 0
    try:
        stack.start(switch.pulse)
        _greet(stack, layout)
        while not switch.asked:
            stack.look()
            time.sleep(0.1)
    except StopAsked:
        pass
    except (CannotStart, GaveUp) as problem:
        say(str(problem))
        code = 1
    finally:
        say("Stopping.")
        stack.stop()
        lock.release()
        say("Kaizen has stopped.")
    return code


def stop(var: Path) -> int:
    """Ask the running supervisor to stop and wait until it has."""
    running = read_json(var / "running.json")
    pid, mark = int(running.get("pid", 0)), running.get("mark")
    if not is_same(pid, mark):
        say("Kaizen is not running here.")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while is_same(pid, mark):
        if time.monotonic() > deadline:
            raise CannotStart(f"Process {pid} has not stopped within {_STOP_SECONDS:.0f} s.")
        time.sleep(0.1)
    say("Kaizen has stopped.")
    return 0


def say(message: str) -> None:
    """Tell the person at the console, at once."""
    print(message, flush=True)  # noqa: T201 - this console is the supervisor's surface


def _greet(stack: Stack, layout: Layout) -> None:
    say(f"Kaizen is ready at {stack.url}")
    if not stack.url.endswith(f":{WEB_PORT}"):
        say(
            f"  Port {WEB_PORT} was taken when this port was chosen; it is kept until you remove"
            f" {layout.var / 'ports.json'}."
        )
    for entry in stack.sign_ins:
        role = f"  ({entry['role']})" if entry.get("role") else ""
        say(f"  sign in as {entry['username']} with {entry['password']}{role}")
    say(f"Logs are in {layout.logs}. Ctrl-C stops everything.")
