"""Name what a sandbox can be given to run programs with, beside the bare Python that all have.

Each runtime is one folder of the host, made once, bound read-only at /runtime/<name>.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from apps.sandboxd.bwrap import world_reachable

OFFICE: Final = "office"
NODE: Final = "node"
PI: Final = "pi"
NAMES: Final = (OFFICE, NODE, PI)

FOLDER: Final = "/runtime"

# What each is called where people read it, and what it is for.
TITLES: Final[Mapping[str, str]] = {
    OFFICE: "the office Python (documents, tables and charts)",
    NODE: "Node",
    PI: "the Pi loader",
}
# Pi is a tree of modules that Node runs.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {PI: (NODE,)}

_FONTS: Final = "/tmp/.matplotlib"  # noqa: S108 - a file system of the sandbox's own
FONT_LIST: Final = "share/matplotlib"
_VARIABLES: Final[Mapping[str, Mapping[str, str]]] = {
    OFFICE: {
        # Matplotlib wants a folder that it may write, and would take the workspace for it.
        "MPLCONFIGDIR": _FONTS,
        "MPLBACKEND": "Agg",
        # One core is all that a call gets; more threads would only hold memory.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    },
    NODE: {
        "NPM_CONFIG_CACHE": "/tmp/.npm",  # noqa: S108 - as above
        "NPM_CONFIG_UPDATE_NOTIFIER": "false",
        "NPM_CONFIG_FUND": "false",
        "NPM_CONFIG_AUDIT": "false",
    },
    PI: {},
}

# What the probe runs inside to see that a runtime works; it prints the version.
PROOFS: Final[Mapping[str, tuple[str, ...]]] = {
    OFFICE: (
        "python", "-I", "-B", "-c",
        "import importlib.metadata as m, numpy, lxml.etree, PIL\n"
        "print(', '.join(f'{n} {m.version(n)}' for n in ('python-pptx', 'python-docx', 'openpyxl',"
        " 'reportlab', 'matplotlib', 'numpy', 'pandas')))",
    ),
    NODE: (
        "node", "-p",
        "process.versions.node + ', npm ' + JSON.parse(require('fs').readFileSync("
        "'/runtime/node/lib/node_modules/npm/package.json', 'utf8')).version",
    ),
    PI: (
        "node", "-p",
        "require('/runtime/pi/node_modules/@earendil-works/pi-coding-agent/package.json').version",
    ),
}  # fmt: skip


def closed(names: Iterable[str]) -> tuple[str, ...]:
    """Return the named runtimes and what they need, each once, in the order of the list."""
    wanted = set(names)
    for name in tuple(wanted):
        wanted.update(_NEEDS.get(name, ()))
    return tuple(name for name in NAMES if name in wanted)


def find_runtimes(folder: Path | None, hidden: tuple[Path, ...]) -> dict[str, Path]:
    """Return the runtimes that lie in a folder and that sandboxes can reach."""
    found: dict[str, Path] = {}
    if folder is None or not folder.is_dir():
        return found
    for name in NAMES:
        real = (folder / name).resolve()
        if not real.is_dir() or any(real in one.parents or real == one for one in hidden):
            continue
        if os.geteuid() != 0 or world_reachable(real):
            found[name] = real
    return found


def search_path(names: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of programs that come first on PATH."""
    return tuple(f"{FOLDER}/{name}/bin" for name in closed(names) if name != PI)


def variables(names: Iterable[str]) -> dict[str, str]:
    """Return what the environment of a program with these runtimes holds in addition."""
    return {key: value for name in closed(names) for key, value in _VARIABLES[name].items()}


def mounts(names: Iterable[str], found: Mapping[str, Path]) -> list[str]:
    """Return bubblewrap's options that bind these runtimes; the writable /tmp stands already."""
    options: list[str] = []
    for name in closed(names):
        place = found[name]
        options += ["--ro-bind", str(place), f"{FOLDER}/{name}"]
        if name == OFFICE:
            # Looking for fonts takes seconds; the list was made together with the runtime.
            options += ["--perms", "0700", "--dir", _FONTS]
            for known in sorted((place / FONT_LIST).glob("fontlist-*.json")):
                inside = f"{FOLDER}/{name}/{FONT_LIST}/{known.name}"
                options += ["--symlink", inside, f"{_FONTS}/{known.name}"]
    return options
