"""Install the pinned runtimes of sandboxes for this clone, before anything starts.

What cannot be installed is said in one sentence, and only what needs it is not offered later.
`KAIZEN_RUNTIMES` names another folder for them, as a production machine has one.
"""

import argparse
import os
import sys
from pathlib import Path

from apps.sandbox.installers import NotInstalled, registry_of_npm
from apps.sandbox.provision import provide
from apps.sandbox.runtime import NoRuntime
from apps.sandboxd.runtimes import NODE
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.state import open_layout, runtime_store

REGISTRY = "registry"


def places() -> tuple[Path, Path]:
    """Return where the runtimes are linked, for the supervisor's --runtime, and where they lie."""
    if named := os.environ.get("KAIZEN_RUNTIMES"):
        return Path(named).absolute(), Path(named).absolute() / "store"
    return open_layout().home / "runtime", runtime_store()


def registry(links: Path) -> str:
    """Return the registry that was noted when Node was installed, or nothing."""
    try:
        return (links / REGISTRY).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _note_registry(links: Path, runtimes: tuple[str, ...]) -> tuple[str, ...]:
    """Note once which registry npm asks here: dependencies of packages come from there as well."""
    note = links / REGISTRY
    if NODE not in runtimes or note.exists():
        return ()
    try:
        said = registry_of_npm(links / NODE)
    except NotInstalled as problem:
        return (str(problem),)
    draft = note.with_name(f".{REGISTRY}-{os.getpid()}")
    draft.write_text(f"{said}\n", encoding="utf-8")
    draft.replace(note)
    return ()


def main() -> int:
    """Bring the runtimes in place; a second time finds all of them there."""
    parser = argparse.ArgumentParser(prog="python -m kaizen.runtimes", description=__doc__)
    parser.add_argument("--where", action="store_true", help="only say where they are linked")
    parser.add_argument("--strict", action="store_true", help="fail where one is missing")
    said = parser.parse_args()
    if sys.platform != "linux":
        return 0
    problems: tuple[str, ...]
    try:
        links, store = places()
        if said.where:
            sys.stdout.write(f"{links}\n")
            return 0
        for folder in (links, store):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        provided = provide(links, store)
        problems = (*provided.problems, *_note_registry(links, provided.runtimes))
    except (NoRuntime, CannotStart) as problem:
        problems = (str(problem),)
    for sentence in problems:
        sys.stderr.write(f"{sentence}\n  What needs it will not be offered; the rest works.\n")
    return 1 if problems and said.strict else 0


if __name__ == "__main__":
    sys.exit(main())
