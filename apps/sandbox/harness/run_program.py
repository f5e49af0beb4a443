"""Run a program that an agent wrote, as if it had been started by itself in the workspace.

This file runs beside the code that it starts, so nothing here is a boundary. It imports nothing but
the standard library and is never imported by the rest of Kaizen. Python is started without its site
module, which is slow to set up; what a program expects of it is put in place here.
"""

import _sitebuiltins
import builtins
import sys

PROGRAM = "/kaizen/program.py"
LIBRARIES = "/runtime/office/lib/python{}.{}/site-packages"


def main() -> None:
    """Run the program; a failure is shown as the program's own, without the lines of this file."""
    with open(PROGRAM, encoding="utf-8", errors="surrogatepass") as file:
        source = file.read()
    sys.path.insert(0, "/workspace")
    sys.path.append(LIBRARIES.format(*sys.version_info))
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
    builtins.help = _sitebuiltins._Helper()
    sys.argv = [PROGRAM]
    module = type(sys)("__main__")
    module.__dict__["__file__"] = PROGRAM
    sys.modules["__main__"] = module
    try:
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except SystemExit:
        raise
    except BaseException as problem:  # noqa: BLE001 - whatever it is, it is the program's own end
        trace = problem.__traceback__.tb_next if problem.__traceback__ is not None else None
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        sys.exit(1)


if __name__ == "__main__":
    main()
