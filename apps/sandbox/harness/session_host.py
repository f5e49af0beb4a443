"""Host a tool session: start its program, run the calls that are bound to it, and stop it.

Lines on descriptor 3 ask for each. The program and the calls run as children in this one sandbox,
and may do to each other and to this file whatever they like: what it says is a claim. It imports
nothing but the standard library and is never imported by the rest of Kaizen.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SESSION = "/tmp/session"  # noqa: S108 - a file system of this sandbox's own
READY_BYTES = 64 * 1024


class Host:
    """The program of a session, and what is asked of it."""

    def __init__(
        self, variables: "list[str]", places: "list[str]", own_places: "list[str]"
    ) -> None:
        self.channel = socket.socket(fileno=3)
        os.set_inheritable(3, False)
        self.unread = b""
        self.heard: list[dict] = []
        self.variables = variables
        self.places = places
        self.own_places = own_places
        self.program: subprocess.Popen[bytes] | None = None
        self.first_line = b""
        self.ready = False
        self.failed = ""

    def serve(self) -> None:
        """Carry out one request after the other until the channel ends."""
        self.channel.sendall(b'{"kind": "ready"}\n')
        while True:
            for door in select.select([self.channel, *self.talking()], [], [])[0]:
                if door is self.channel:
                    self.hear()
                else:
                    self.drain()
            while self.heard:
                self.carry_out(self.heard.pop(0))

    def hear(self) -> None:
        """Note what has come, after something has."""
        data = self.channel.recv(64 * 1024)
        if not data:
            sys.exit(0)
        *lines, self.unread = (self.unread + data).split(b"\n")
        self.heard += [json.loads(line) for line in lines]

    def interrupted(self) -> bool:
        """Tell whether the call under way is to end; nothing else is asked meanwhile."""
        heard, self.heard = self.heard, []
        return any(asked["kind"] == "interrupt" for asked in heard)

    def carry_out(self, asked: dict) -> None:
        """Do what one line asks, and say what came of it; an interruption comes too late here."""
        verbs = {"run": self.run, "stop": self.stop}
        if asked["kind"] in verbs:
            said = {"kind": "done", **verbs[asked["kind"]](asked)}
            self.channel.sendall(json.dumps(said).encode() + b"\n")

    def begin(self, asked: dict, until: float) -> "dict[str, object]":
        """Start the program once, and wait for its first line.

        A call may give up first. The program goes on getting ready for the next one.
        """
        if self.program is None and not self.failed:
            os.mkdir(SESSION, 0o700)
            make_anew(self.own_places)
            try:
                self.program = self.spawn(asked, stdout=subprocess.PIPE)
            except OSError as problem:
                self.failed = f"It could not be started: {problem.strerror}."
        while not (self.ready or self.failed):
            if self.interrupted():
                return {"state": "interrupted"}
            left = until - time.monotonic()
            if left <= 0:
                return {"state": "starting"}
            for door in select.select([self.channel, *self.talking()], [], [], left)[0]:
                if door is self.channel:
                    self.hear()
                else:
                    self.drain()
        return self.standing()

    def fail(self, said: str) -> None:
        """Note for good why the program never became ready, and end what there is of it."""
        self.failed = said
        kill(self.program)

    def standing(self) -> "dict[str, object]":
        """Say whether the program runs; one that does not takes its whole group along."""
        program = self.program
        if self.failed:
            return {"state": "failed", "message": self.failed}
        if program is not None and program.poll() is not None:
            kill(program)
            return {"state": "ended", "message": f"It ended with exit code {program.returncode}."}
        return {"state": "ready"}

    def talking(self) -> list:
        """Return the program's output as long as it may say something."""
        stream = None if self.program is None else self.program.stdout
        return [] if stream is None or stream.closed else [stream]

    def drain(self) -> None:
        """Read what the program says: its first line, and after that for nobody."""
        for stream in self.talking():
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                stream.close()
            if self.ready:
                continue
            self.first_line += chunk
            if b"\n" in self.first_line[:READY_BYTES]:
                self.ready, self.first_line = True, b""
            elif len(self.first_line) >= READY_BYTES:
                self.fail("It did not say that it is ready with one short line.")
            elif not chunk:
                self.fail("It ended, or closed its output, before it was ready.")

    def run(self, asked: dict) -> "dict[str, object]":
        """Run one call that is bound to the session, and end it where the program ends."""
        until = time.monotonic() + asked["deadline_ms"] / 1000
        standing = self.begin(asked["start"], until)
        if standing["state"] != "ready":
            return standing
        make_anew(self.places)
        try:
            process = self.spawn(asked, stdout=None)
        except OSError as problem:
            return {"state": "unspawned", "message": f"{problem.strerror}"}
        cut = self.wait(process, until)
        kill(process)
        return self.standing() if cut == "ended" else {"state": cut, "exit": process.returncode}

    def wait(self, process: "subprocess.Popen[bytes]", until: float) -> str:
        """Wait for a call; return how that ended."""
        pids = [one.pid for one in (process, self.program) if one is not None]
        died, over = (os.pidfd_open(pid) for pid in pids)
        try:
            while (left := until - time.monotonic()) > 0:
                if self.interrupted():
                    return "interrupted"
                doors = [died, over, self.channel, *self.talking()]
                found = select.select(doors, [], [], left)[0]
                if died in found:
                    return "done"
                if over in found:
                    return "ended"
                if self.channel in found:
                    self.hear()
                if doors[3:] and doors[3] in found:
                    self.drain()
            return "timeout"
        finally:
            os.close(died)
            os.close(over)

    def stop(self, asked: dict) -> "dict[str, object]":
        """Run the command that stops the program, end the program, and leave nothing."""
        if self.program is None:
            return {"state": "done", "exit": 0}
        said: dict[str, object] = {}
        try:
            make_anew(self.places)
            process = self.spawn(asked, stdout=None)
            try:
                said = {"state": "done", "exit": process.wait(asked["deadline_ms"] / 1000)}
            except subprocess.TimeoutExpired:
                said = {"state": "timeout"}
            kill(process)
        except OSError as problem:
            said = {"state": "unspawned", "message": f"{problem.strerror}"}
        kill(self.program)
        for place in (SESSION, *self.places, *self.own_places):
            shutil.rmtree(place, ignore_errors=True)
            if os.path.lexists(place):
                said = {"state": "left_over"}
        return said

    def spawn(self, asked: dict, *, stdout: "int | None") -> "subprocess.Popen[bytes]":
        """Start one command in a group of processes of its own."""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(base64.b64decode(asked["stdin"]))
            stdin.seek(0)
            return subprocess.Popen(
                asked["argv"],
                cwd=asked["cwd"],
                env={**os.environ, **dict.fromkeys(self.variables, SESSION)},
                stdin=stdin,
                stdout=stdout,
                stderr=None if stdout is None else subprocess.DEVNULL,
                start_new_session=True,
            )


def make_anew(places: "list[str]") -> None:
    """Give a command folders of its own for its output and its temporary files."""
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place, 0o700)


def kill(process: "subprocess.Popen[bytes] | None") -> None:
    """Kill a command with its group, and wait for it."""
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Host(given["variables"], given["places"], given["own_places"]).serve()
