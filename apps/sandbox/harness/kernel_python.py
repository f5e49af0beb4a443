"""Run cells of Python in one namespace that lives on, each asked for by a line on descriptor 3.

This file runs beside the code it carries out, so whatever it says is as untrusted as that code. It
imports nothing but the standard library, little of it before the first cell, and is never imported
by the rest of Kaizen.
"""

import _ast
import _thread
import builtins
import itertools
import json
import os
import sys

CHANNEL = 3
SHOWN = 64 * 1024
# The flag of `ast`, which takes a while to load and is not needed otherwise.
ONLY_A_TREE: int = 0x400


class Tools:
    """The tools that this program may call: they read, and another process decides each time."""

    def __init__(self) -> None:
        self._reader = open(CHANNEL, "rb", closefd=False)  # noqa: SIM115 - as long as we live
        self._lock = _thread.allocate_lock()

    def available(self) -> object:
        """Return what may be called: name, description and input schema of each."""
        return self._ask("tools.available", {})

    def call(self, name: str, arguments: "dict | None" = None, /, **more: object) -> object:
        """Call a tool that reads and return its result; raise RuntimeError where that fails.

        Its arguments are given by name, or as one dict, or as both.
        """
        if not isinstance(name, str) or not name:
            raise TypeError("The first argument is the name of a tool.")
        if not isinstance(arguments, dict | None):
            raise TypeError("The second argument is a dict of the tool's arguments.")
        return self._ask(name, {**(arguments or {}), **more})

    def _ask(self, name: str, arguments: dict) -> object:
        with self._lock:
            self._say({"kind": "call", "name": name, "args": arguments})
            answer = json.loads(self._reader.readline())
        if not answer["ok"]:
            raise RuntimeError(answer["value"])
        return answer["value"]

    def _say(self, what: dict) -> None:
        data = memoryview(json.dumps(what, allow_nan=False).encode() + b"\n")
        while data:
            data = data[os.write(CHANNEL, data) :]

    def next_cell(self, done: "dict | None") -> "str | None":
        """Say what came of the last cell and wait for the next one."""
        # Held while nobody listens: what a thread calls between two cells waits for the next one.
        with self._lock:
            self._say(done or {"kind": "ready"})
            line = self._reader.readline()
        return json.loads(line)["code"] if line else None


def carry_out(code: str, namespace: dict, name: str) -> dict:
    """Run one cell; its last expression is its value, as at the prompt."""
    try:
        tree = compile(code, name, "exec", ONLY_A_TREE)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, _ast.Expr):
            tree.body.pop()
        exec(compile(tree, name, "exec"), namespace)  # noqa: S102 - that is what this file is for
        value = None
        if isinstance(last, _ast.Expr):
            value = eval(compile(_ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
        if value is not None:
            namespace["_"] = value
        return {"kind": "done", "ok": True, "value": None if value is None else shown(repr(value))}
    except BaseException as problem:  # noqa: BLE001 - a cell may raise anything, SystemExit too
        return {
            "kind": "done",
            "ok": False,
            "type": shown(type(problem).__name__)[:200],
            "message": shown(text_of(problem))[:2000],
            "traceback": trace_of(problem)[-8000:],
        }


def text_of(problem: BaseException) -> str:
    """Return the text of an exception, whatever its author made of it."""
    try:
        return str(problem)
    except BaseException:  # noqa: BLE001 - even the text of an exception is foreign code
        return "(this exception has no readable text)"


def trace_of(problem: BaseException) -> str:
    """Return where an exception came from, without the lines of this file."""
    try:
        import linecache
        import traceback

        for name, code in sources.items():
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        trace = traceback.TracebackException.from_exception(problem)
        trace.stack[:] = [one for one in trace.stack if one.filename != __file__]
        return shown("".join(trace.format()))
    except BaseException:  # noqa: BLE001 - the cell may have changed what this stands on
        return ""


def shown(text: str) -> str:
    """Return text as it may travel: bounded, no half of a surrogate pair and no NUL."""
    text = text if len(text) <= SHOWN else text[:SHOWN] + " [...]"
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


sources: "dict[str, str]" = {}


def main() -> None:
    """Wait for cells until the channel ends."""
    os.set_inheritable(CHANNEL, False)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    tools = Tools()
    namespace = {"__name__": "__main__", "__builtins__": builtins, "tools": tools}
    sys.path.insert(0, "/workspace")
    sys.argv = [""]
    done = None
    for number in itertools.count(1):
        code = tools.next_cell(done)
        if code is None:
            return
        name = f"<cell {number}>"
        sources[name] = code
        if len(sources) > 50:
            del sources[next(iter(sources))]
        done = carry_out(code, namespace, name)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                continue  # the cell may have closed or replaced it


if __name__ == "__main__":
    main()
