"""Run a program that an agent wrote, as if it had been started by itself in the workspace.

This file runs beside the code that it starts, so nothing here is a boundary. It imports nothing but
the standard library and is never imported by the rest of Kaizen. Python is started without its site
module, which is slow to set up; what a program expects of it is put in place here.

It starts before its program is known: it does all that can be done without it, says so with a dot,
and reads its input to the end. That holds variables, each NAME=VALUE and a NUL, one more NUL, and
the program.
"""

import _sitebuiltins
import builtins
import os
import sys

PROGRAM = "/tmp/program.py"  # noqa: S108 - a file system of the sandbox's own
LIBRARIES = "/runtime/office/lib/python{}.{}/site-packages"
NOT_BEGUN = 125


def main() -> None:
    """Run the program; a failure is shown as the program's own, without the lines of this file."""
    names = set_up()
    source = receive()
    try:
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), names)  # noqa: S102
    except SystemExit:
        raise
    except BaseException as problem:  # noqa: BLE001 - whatever it is, it is the program's own end
        trace = problem.__traceback__.tb_next if problem.__traceback__ is not None else None
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        sys.exit(1)


def set_up() -> dict[str, object]:
    """Put in place what a program expects, and return the names that it will have."""
    sys.path.insert(0, "/workspace")
    sys.path.append(LIBRARIES.format(*sys.version_info))
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
    builtins.help = _sitebuiltins._Helper()
    sys.argv = [PROGRAM]
    module = type(sys)("__main__")
    module.__dict__["__file__"] = PROGRAM
    sys.modules["__main__"] = module
    # The first program that is compiled waits for the compiler's own tables.
    compile("", PROGRAM, "exec", dont_inherit=True)
    return module.__dict__


def receive() -> str:
    """Say that the program may come, wait for it, and return its text."""
    os.write(1, b".")
    told = b"".join(iter(lambda: os.read(0, 65536), b""))
    variable, ended, told = told.partition(b"\0")
    while variable:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
        variable, ended, told = told.partition(b"\0")
    if not ended:
        # Whoever was to watch the program is gone.
        os._exit(NOT_BEGUN)
    # A program finds itself, and what fails in it is shown with its lines.
    with open(PROGRAM, "wb") as file:
        file.write(told)
    return told.decode("utf-8", "surrogatepass")


if __name__ == "__main__":
    main()
