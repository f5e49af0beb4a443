"""Ask a real supervisor for sandboxes that live on, as workers do."""

import json
from pathlib import Path
from typing import Any, ClassVar

from apps.sandbox.living import Files, ask_living, close_living, open_living
from apps.sandbox.spec import Limits, SandboxSpec, WorkFile
from apps.sandboxd.exchange import Terms
from apps.sandboxd.frames import write_line
from apps.sandboxd.kernel_wire import Answered, Closed, Opened, Opening
from apps.sandboxd.workfiles import known_of
from tests.sandboxd.daemon import CLONE, Daemon

LOOP = CLONE / "apps/sandbox/harness/kernel_python.py"
MINUTES = Terms(idle_ms=120_000, total_ms=600_000)


def python_spec(loop: str | Path = LOOP, limits: Limits | None = None) -> SandboxSpec:
    source = loop.read_bytes() if isinstance(loop, Path) else loop.encode()
    return SandboxSpec(
        argv=("python", "-I", "-S", "-B", "/kaizen/loop.py"),
        harness=(("loop.py", source),),
        limits=limits or Limits(),
    )


class Living:
    """One kernel of one owner."""

    made: ClassVar[list["Living"]] = []

    def __init__(
        self,
        daemon: Daemon,
        key: str,
        owner: str = "owner-one",
        spec: SandboxSpec | None = None,
        terms: Terms = MINUTES,
    ) -> None:
        self.daemon, self.key, self.owner = daemon, key, owner
        self.spec, self.terms = spec or python_spec(), terms
        self.opened: Opened = self.open()
        self.made.append(self)

    def open(self) -> Opened:
        opening = Opening(self.key, self.owner, self.spec, self.terms)
        self.opened = open_living(opening, path=self.daemon.socket)
        return self.opened

    def cell(self, code: str, *, deadline_s: float = 20, **asked: Any) -> Answered:
        return self.ask({"kind": "cell", "code": code}, deadline_s=deadline_s, **asked)

    def ask(self, said: dict[str, Any], *, deadline_s: float = 20, **asked: Any) -> Answered:
        return ask_living(
            key=self.key,
            owner=asked.pop("owner", self.owner),
            generation=asked.pop("generation", self.opened.generation),
            line=write_line(said),
            deadline_s=deadline_s,
            path=self.daemon.socket,
            **asked,
        )

    def value(self, code: str, **asked: Any) -> str | None:
        """Run a cell that goes well and return what its last expression is worth."""
        answered = self.cell(code, **asked)
        said = json.loads(answered.said or b"{}")
        assert said.get("ok") is True, answered
        shown: str | None = said["value"]
        return shown

    def close(self) -> Closed:
        return close_living(key=self.key, owner=self.owner, path=self.daemon.socket)


def holding(*files: WorkFile) -> Files:
    """Return the files of a workspace as a worker hands them in."""
    by_name = {file.name: file for file in files}
    return Files(known_of(files), lambda names: [by_name[name] for name in names])
