"""How does an agent write a program, see it fail, mend it in place, and see it work?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.domain.hashline import tag_of
from apps.web.demo.client import Member, NotAsItShould, Viewer

CEILING = ("code.run",)
PROGRAM = """\
def area(width, height):
    return width * hight


print("area:", area(6, 7))
"""
MENDED = PROGRAM.replace("hight", "height")
_NAME = "area.py"


@dataclass(frozen=True, slots=True)
class Mended:
    """What the audit trail has to know of it."""

    run: str
    calls: tuple[str, ...]


def mend_a_program(
    *, url: str, member: Member, suffix: str, say: Callable[[str, str], None]
) -> Mended:
    """Let an agent work on a program in the member's own workspace of a room."""
    slug = f"mender-{suffix}"
    member.post(
        "agents",
        {
            "slug": slug,
            "name": f"Mender {suffix}",
            "description": "Writes small programs and mends them.",
            "persona": "You write small programs, run them, and mend them where they fail.",
            "ceiling": list(CEILING),
        },
    )
    room: str = member.post("rooms", {"name": f"Workshop {suffix}"})["id"]
    member.post(f"rooms/{room}/seats", {"agent": slug})
    viewer = Viewer(url, member, room)
    try:
        run: str = member.post(f"rooms/{room}/messages", {"text": _script()})["run"]
        viewer.event("run.finished", run=run, outcome="completed")
    finally:
        viewer.close()
    listed = sorted(
        member.get(f"runs/{run}/calls")["results"], key=lambda one: str(one["created_at"])
    )
    calls = [member.get(f"calls/{one['id']}") for one in listed]
    _tell(calls, say)
    _take(member, room, say)
    return Mended(run, tuple(call["id"] for call in calls))


def _script() -> str:
    """Return what steers the rehearsal model: write and run, read, mend, run again."""
    write = f"cat > {_NAME} <<'END'\n{PROGRAM}END\npython {_NAME}\n"
    patch = f"[{_NAME}#{tag_of(PROGRAM)}]\nPUT 2.=2:\n+    return width * height"
    steps = [
        ("run_code", {"language": "bash", "code": write, "artifact_targets": []}),
        ("read_workspace", {"path": _NAME}),
        ("edit_workspace", {"patch": patch}),
        ("run_code", {"language": "bash", "code": f"python {_NAME}\n", "artifact_targets": []}),
    ]
    return "\n".join(f"/call {tool} {json.dumps(arguments)}" for tool, arguments in steps)


def _tell(calls: list[dict[str, Any]], say: Callable[[str, str], None]) -> None:
    """Check each step of the work and say what happened."""
    tools = [call["tool"] for call in calls]
    if tools != ["run_code", "read_workspace", "edit_workspace", "run_code"]:
        raise NotAsItShould(f"The agent's calls were {', '.join(tools) or 'none'}.")
    failed, seen, edited, ran = (call["projection"] for call in calls)
    _demand(failed["outcome"] == "error", "the broken program did not fail", failed)
    errors = failed["details"]["stderr"]
    _demand("NameError" in errors, "the model was not told how the program failed", failed)
    say("Run", f"the program failed: {errors.strip().splitlines()[-1]}")
    _demand("2:    return width * hight" in str(seen), "the read did not show the line", seen)
    _demand(edited["outcome"] == "ok", "the edit was refused", edited)
    header = edited["value"]["files"][0]["header"]
    say("Mend", f"line 2 of {_NAME} was replaced under its tag; it is now {header}")
    _demand(ran["outcome"] == "ok", "the mended program failed", ran)
    _demand(ran["value"]["stdout"] == "area: 42\n", "the program printed something else", ran)
    say("Run", f"the program printed {ran['value']['stdout'].strip()!r}")


def _take(member: Member, room: str, say: Callable[[str, str], None]) -> None:
    """Take the program out of the workspace, as its owner may."""
    files = member.get(f"rooms/{room}/workspace/files")["results"]
    _demand([file["path"] for file in files] == [_NAME], "the workspace holds other files", files)
    content = member.take(f"rooms/{room}/workspace/content", path=_NAME)
    _demand(content == MENDED.encode(), "the workspace does not hold the mended program", content)
    say("Take", f"mara's workspace holds {_NAME}, {files[0]['size']} bytes, mended")


def _demand(holds: bool, otherwise: str, seen: Any) -> None:
    if not holds:
        raise NotAsItShould(f"{otherwise[:1].upper()}{otherwise[1:]}: {str(seen)[:500]}")
