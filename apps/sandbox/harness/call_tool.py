"""Call one function of a package inside a sandbox and write its answer to descriptor 3.

This file runs beside the code it calls, so whatever it says is as untrusted as that code. It
imports nothing but the standard library and is never imported by the rest of Kaizen.
"""

import importlib
import json
import os
import socket
import sys
import traceback

PACKAGE = "/package"
# Characters of what is said of a failure; who shows it cuts it to size and says so.
MAX_MESSAGE = 64 * 1024


def answer(entry: str, arguments: object) -> bytes:
    """Find the function, call it, and describe what happened, as JSON."""
    module_name, _, function_name = entry.partition(":")
    try:
        module = importlib.import_module(module_name)
        origin = getattr(module, "__file__", None) or ""
        if not origin.startswith(PACKAGE + "/"):
            return encode(contract(f"{module_name} is not a module of this package."))
        function = getattr(module, function_name, None)
        if not callable(function):
            return encode(contract(f"{module_name} has no function {function_name}."))
        value = function(arguments)
    except BaseException as problem:  # noqa: BLE001 - a tool may raise anything, SystemExit too
        return encode(raised(problem))
    try:
        # Once only: a value of a class of its own may be another one the next time.
        return encode({"kind": "value", "value": value})
    except BaseException as problem:  # noqa: BLE001 - such a class is foreign code as well
        return encode(contract(f"{entry} returned something that is not JSON: {text_of(problem)}"))


def encode(said: dict[str, object]) -> bytes:
    """Write what is said as JSON."""
    return json.dumps(said, allow_nan=False).encode()


def text_of(problem: BaseException) -> str:
    """Return the text of an exception, whatever its author made of it."""
    try:
        return plain(str(problem))
    except BaseException:  # noqa: BLE001 - even the text of an exception is foreign code
        return "(this exception has no readable text)"


def plain(text: str) -> str:
    """Replace what no answer may hold: halves of surrogate pairs, as in odd file names, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def contract(sentence: str) -> dict[str, object]:
    """Describe a package that does not hold what its manifest says."""
    return {"kind": "contract", "message": sentence[:2000]}


def raised(problem: BaseException) -> dict[str, object]:
    """Describe what a tool raised, with the part of the trace that its author wrote."""
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if f.filename != __file__]
    return {
        "kind": "raised",
        "type": plain(type(problem).__name__)[:200],
        "message": text_of(problem)[:MAX_MESSAGE],
        "traceback": plain("".join(traceback.format_list(frames)))[-8000:],
    }


def main() -> None:
    """Read the arguments, answer once, and leave without waiting for anything."""
    channel = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    arguments = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    sys.path.insert(0, PACKAGE)
    entry = sys.argv[1]
    sys.argv = [entry]
    data = answer(entry, arguments)
    channel.sendall(len(data).to_bytes(4, "big") + data)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the tool may have closed or replaced it
    os._exit(0)


if __name__ == "__main__":
    main()
