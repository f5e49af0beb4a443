"""The partner of the sandbox's benchmark: opens runs that may run code, and asks sandboxd."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import django

django.setup()

from apps.accounts.models import User  # noqa: E402
from apps.agents.services import create_agent  # noqa: E402
from apps.audit.models import AuditRow  # noqa: E402
from apps.boundary.external import open_external_run  # noqa: E402
from apps.domain.tooling import Capability  # noqa: E402
from apps.rooms.services import create_room  # noqa: E402
from apps.runs.models import Call  # noqa: E402
from apps.runs.services import add_seat  # noqa: E402
from apps.sandbox import client  # noqa: E402
from apps.sandbox.living import ask_living, close_living, open_living  # noqa: E402
from apps.sandbox.spec import Limits, SandboxSpec  # noqa: E402
from apps.sandboxd.exchange import Terms  # noqa: E402
from apps.sandboxd.frames import write_line  # noqa: E402
from apps.sandboxd.kernel_wire import Opening  # noqa: E402
from kaizen.runtimes import places  # noqa: E402
from kaizen.supervisor.state import CLONE  # noqa: E402

PYTHON = ("-I", "-S", "-c", "pass")


def open_runs(many: int) -> list[str]:
    """Open runs in rooms, and so with workspaces, of their own, and return their tokens."""
    member = User.objects.get(username="mara")
    agent = create_agent(
        owner=member, slug="coder", name="Coder", ceiling=[one.value for one in Capability]
    )
    tokens: list[str] = []
    for number in range(many):
        room = create_room(creator=member, name=f"Room {number}")
        add_seat(room_id=room.pk, member=member, agent_slug=agent.slug)
        opened = open_external_run(room_id=room.pk, member=member, agent_slug=agent.slug)
        tokens.append(opened.token)
    return tokens


def audited() -> dict[str, int]:
    """Count the calls of the measured tool that settled well, and those that the trail knows."""
    calls = Call.objects.filter(tool="run_code", outcome="ok").values_list("pk", flat=True)
    subjects = {f"call:{one}" for one in calls}
    known = AuditRow.objects.filter(subject__in=subjects, outcome="ok").values_list("subject")
    return {"calls": len(subjects), "audited": known.distinct().count()}


def start_times(count: int) -> dict[str, list[float]]:
    """Return the milliseconds of a bare interpreter and of the same one confined, in turn."""
    spec = SandboxSpec(argv=("python", *PYTHON), limits=Limits(wall_ms=20_000))
    interpreter = str(places()[0] / "python")
    bare: list[float] = []
    confined: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        subprocess.run([interpreter, *PYTHON], env={}, check=True)
        bare.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        client.run(spec, deadline_s=20)
        confined.append((time.perf_counter() - began) * 1000)
    return {"bare": bare, "confined": confined}


def cell_times(count: int) -> list[float]:
    """Return the milliseconds of cells of one kernel, asked of the supervisor."""
    loop = CLONE / "apps/sandbox/harness/kernel_python.py"
    spec = SandboxSpec(
        argv=("python", "-I", "-S", "-B", "/kaizen/loop.py"),
        harness=(("loop.py", loop.read_bytes()),),
    )
    key = owner = "benchmark"
    terms = Terms(idle_ms=60_000, total_ms=600_000)
    opened = open_living(Opening(key, owner, spec, terms))
    line = write_line({"kind": "cell", "code": "print(6 * 7)"})
    times: list[float] = []
    for _ in range(count + 1):
        began = time.perf_counter()
        ask_living(key=key, owner=owner, generation=opened.generation, line=line, deadline_s=20)
        times.append((time.perf_counter() - began) * 1000)
    close_living(key=key, owner=owner)
    return times[1:]


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Do what was asked."""
    match asked["what"]:
        case "open":
            return {"tokens": open_runs(asked["many"])}
        case "audited":
            return dict(audited())
        case "start":
            return dict(start_times(asked["count"]))
        case "cells":
            return {"ms": cell_times(asked["count"])}
    sys.exit(f"Nobody knows how to {asked['what']}.")


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
