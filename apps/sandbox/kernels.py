"""How does a program go on where the last call left it? In a kernel, bound to a workspace.

A kernel is a sandbox that lives on between calls, for one member in one room and one language. The
files of the workspace lie in rows as always: before each cell the kernel's folder is made equal to
them, and what the cell changed comes back. Only what is in memory lives in the kernel alone, so
where it ends, that is lost, and the next call says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from django.db import connection
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.domain.wire import BadJson, read_json
from apps.sandbox.client import OnOutput
from apps.sandbox.coding import sharing
from apps.sandbox.contents import contents
from apps.sandbox.errors import JobRefused, KernelLost, SandboxUnavailable
from apps.sandbox.leases import Lease, name_kernel, this_node
from apps.sandbox.living import (
    Files,
    OnCall,
    Place,
    ask_living,
    close_living,
    no_calls,
    open_living,
)
from apps.sandbox.models import Kernel, Workspace, WorkspaceFile
from apps.sandbox.spec import Limits, Reason, SandboxResult, SandboxSpec, WorkFile
from apps.sandboxd.exchange import Terms
from apps.sandboxd.frames import write_line
from apps.sandboxd.kernel_wire import Answered, Opening
from apps.sandboxd.workfiles import Known

IDLE_SECONDS: Final = 15 * 60
TOTAL_SECONDS: Final = 2 * 3600
TERMS: Final = Terms(idle_ms=IDLE_SECONDS * 1000, total_ms=TOTAL_SECONDS * 1000)
SILENCE_SECONDS: Final = 30
"""So long may a node leave its calls unanswered before its kernels are taken for lost."""
LIFE_CPU_MS: Final = 600_000
"""CPU time that a kernel may use in its whole life."""
MAX_SAID: Final = 1024 * 1024

_HARNESS: Final = Path(__file__).with_name("harness")
# What is started for each language, and which file beside it carries out its cells.
_LOOPS: Final = {
    "python": (("python", "-I", "-B"), "kernel_python.py"),
    "node": (("node", "--disable-warning=ExperimentalWarning"), "kernel_node.mjs"),
}
LANGUAGES: Final = tuple(_LOOPS)

_FRESH: Final = " What earlier cells left in its memory is lost; this cell ran in a fresh kernel."
_LOST: Final = "The kernel that earlier cells ran in had ended." + _FRESH
_OTHER_FILES: Final = "Other files are shared now than when the kernel was started." + _FRESH
_OTHER_NODE: Final = "The kernel lived on another machine, which is not there any more." + _FRESH
_UNHEARD: Final = "What became of the cell before was not heard, so its kernel was ended." + _FRESH
_RELEASED: Final = "The kernel was ended while a person was waited for." + _FRESH
_FULL: Final = "The files of the workspace did not fit into the kernel's any more." + _FRESH
_ENDED: Final = (
    "The kernel was ended with this cell: the next call starts a fresh one, with nothing in memory."
)


@dataclass(frozen=True, slots=True)
class CellResult:
    """How a cell ended, as the end of any program, and what is to be said of its kernel.

    `value` is the text of the last expression, or of what a cell returned; a claim like all else.
    `generation` names the kernel that the next cell may go on in, once `keep_cell` has said so.
    """

    result: SandboxResult
    value: str | None = None
    notes: tuple[str, ...] = ()
    calls: int = 0
    language: str = ""
    generation: str = ""


def run_cell(
    lease: Lease,
    *,
    language: str,
    code: str,
    base: SandboxSpec,
    deadline_s: float,
    on_output: OnOutput | None = None,
    on_call: OnCall = no_calls,
    cancelled: Callable[[], bool] | None = None,
    path: Path | None = None,
) -> CellResult:
    """Run a cell in the kernel of a leased workspace, started now where there is none.

    `base` says what the sandbox is made of; its arguments, input and workspace are the kernel's
    own. Raises SandboxUnavailable where nothing was run, and JobRefused for what never can be.
    No database connection is held while the cell runs. Until `keep_cell` follows, nobody goes on
    with what the cell left in memory: a cell is kept whole, with its files, or not at all.
    """
    workspace = lease.workspace
    surroundings = _surroundings(language, base)
    shared = _digests(base)
    files = _files(workspace)
    rows = Kernel.objects.filter(workspace=workspace, language=language)

    def ask(generation: str) -> Answered:
        # Whoever dies from here on leaves a kernel of which nobody knows what it holds.
        rows.update(generation="")
        connection.close()
        try:
            return ask_living(
                **_place(workspace, language),
                generation=generation,
                line=write_line({"kind": "cell", "code": code}),
                deadline_s=deadline_s,
                files=files,
                outputs=base.outputs,
                on_output=on_output,
                on_call=on_call,
                cancelled=cancelled,
                path=path,
            )
        except (SandboxUnavailable, JobRefused):
            # Nothing was run, so it holds what it held.
            rows.update(generation=generation)
            raise

    known = rows.first()
    generation = "" if known is None else known.generation
    note = "" if known is None else _why_afresh(known, surroundings, shared, files)
    answered: Answered | None = None
    if known is not None and not note:
        try:
            answered = ask(generation)
        except KernelLost:
            note = _LOST
        except JobRefused:
            # Its program made something else where a file belongs. A fresh one has room for it.
            note = _FULL
    if answered is None:
        if known is not None and known.node == this_node():
            close_living(**_place(workspace, language), path=path)
        generation = _start(lease, language, base, surroundings, path=path)
        answered = ask(generation)
    ended = answered.kernel_ended or answered.unheard
    if ended:
        rows.delete()
    notes = [note, _ENDED if ended else ""]
    return replace(
        _judge(answered),
        notes=tuple(one for one in notes if one),
        language=language,
        generation="" if ended else generation,
    )


def keep_cell(lease: Lease, cell: CellResult) -> None:
    """Let the next cell go on where this one ended, in the transaction that keeps its files."""
    if cell.generation:
        Kernel.objects.filter(workspace=lease.workspace, language=cell.language).update(
            generation=cell.generation, used_at=Now(), asked_at=None
        )


def _why_afresh(known: Kernel, surroundings: str, shared: Mapping[str, str], files: Files) -> str:
    """Say why a kernel cannot be gone on with, or nothing where it can.

    Raises SandboxUnavailable where it lives on another machine: the call is sent there next time.
    """
    if known.node not in ("", this_node()):
        if known.asked_at is not None and _is_silent(known):
            return _OTHER_NODE
        raise SandboxUnavailable("The kernel lives on another machine. Try again in a moment.")
    if known.released_at is not None:
        return _RELEASED
    if not known.generation:
        return _UNHEARD
    if known.surroundings != surroundings or not _has_what_is_shared(known, shared, files):
        return _OTHER_FILES
    return ""


def _has_what_is_shared(known: Kernel, shared: Mapping[str, str], files: Files) -> bool:
    """Tell whether a program in a kernel finds every shared file, and none that is refused now.

    What is shared cannot be changed while it lives. But a file that its own cells made lies in the
    workspace, with the very bytes that would be shared: it is not started afresh for that.
    """
    held: Mapping[str, str] = known.shared
    if held.keys() - shared.keys():
        return False
    at_hand = {one.digest.hex() for one in files.known.values()}
    return all(held.get(name) == digest or digest in at_hand for name, digest in shared.items())


def _is_silent(known: Kernel) -> bool:
    """Tell, by the database's clock, whether a kernel's node was asked in vain for long enough."""
    since = Now() - timedelta(seconds=SILENCE_SECONDS)
    return Kernel.objects.filter(pk=known.pk, asked_at__lt=since).exists()


def _start(
    lease: Lease, language: str, base: SandboxSpec, surroundings: str, *, path: Path | None
) -> str:
    """Start a kernel and note where it lives; return which one it is."""
    command, loop = _LOOPS[language]
    spec = replace(
        base,
        argv=(*command, f"/kaizen/{loop}"),
        harness=((loop, (_HARNESS / loop).read_bytes()),),
        waits=False,
        stdin=b"",
        workspace=(),
        keep_workspace=False,
        outputs=(),
        runtimes=_runtimes(language, base),
        limits=_of_a_life(language, base.limits),
    )
    place = _place(lease.workspace, language)
    # Written down before anything of it exists, so that whoever ends the workspace finds it.
    row, _ = Kernel.objects.update_or_create(
        workspace=lease.workspace,
        language=language,
        defaults={
            "node": this_node(),
            "key": place["key"],
            "holder": place["owner"],
            "generation": "",
            "surroundings": surroundings,
            "shared": _digests(base),
            "released_at": None,
            "asked_at": None,
            "started_at": Now(),
            "used_at": Now(),
        },
    )
    connection.close()
    opened = open_living(Opening(**place, spec=spec, terms=TERMS), path=path)
    if not opened.fresh:
        # It was opened, and whoever did could not note it: what it holds is not known.
        close_living(**place, path=path)
        opened = open_living(Opening(**place, spec=spec, terms=TERMS), path=path)
    Kernel.objects.filter(pk=row.pk).update(generation=opened.generation)
    name_kernel(lease, this_node())
    return opened.generation


def stop_kernel(*, workspace: Workspace, language: str, path: Path | None = None) -> bool:
    """End the kernel of a workspace; return once everything of it is dead, and whether it lived."""
    connection.close()
    closed = close_living(**_place(workspace, language), path=path)
    Kernel.objects.filter(workspace=workspace, language=language).delete()
    return closed.was_there


def home_of(*, owner: User, room_id: Any, language: str) -> str:
    """Name the other node where the member's kernel in a room lives, or nothing to stay here.

    A node that was asked in vain for a while is taken for lost: then the call stays here, and its
    kernel is started afresh.
    """
    kernels = Kernel.objects.filter(
        workspace__owner=owner, workspace__room_id=room_id, language=language
    )
    # Whoever looks here answers for this node, whatever then becomes of the call.
    kernels.filter(node=this_node(), asked_at__isnull=False).update(asked_at=None)
    elsewhere = kernels.exclude(node__in=("", this_node()))
    elsewhere.filter(asked_at=None).update(asked_at=Now())
    waits = elsewhere.filter(asked_at__gte=Now() - timedelta(seconds=SILENCE_SECONDS))
    return waits.values_list("node", flat=True).first() or ""


def _place(workspace: Workspace, language: str) -> Place:
    """Return under which key a kernel lives, and who alone may ask for it."""
    return {"key": f"kernel.{workspace.pk}.{language}", "owner": f"member.{workspace.owner_id}"}


def _runtimes(language: str, base: SandboxSpec) -> tuple[str, ...]:
    own = ("node",) if language == "node" else ()
    return tuple(dict.fromkeys((*base.runtimes, *own)))


def _of_a_life(language: str, limits: Limits) -> Limits:
    # Node's loader of modules fails with as few descriptors as suffice for Python.
    least = Limits.for_node() if language == "node" else Limits()
    return replace(
        limits,
        cpu_ms=max(limits.cpu_ms, LIFE_CPU_MS),
        open_files=max(limits.open_files, least.open_files),
        memory_mb=max(limits.memory_mb, least.memory_mb),
    )


def _surroundings(language: str, base: SandboxSpec) -> str:
    """Return the digest of all that a living sandbox cannot be given later, but shared files."""
    said = {
        "language": language,
        "env": sorted(pair for pair in base.env if pair[0] not in sharing.VARIABLES),
        "runtimes": sorted(_runtimes(language, base)),
        "dependencies": base.dependencies,
        "network": repr(base.network),
    }
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _digests(base: SandboxSpec) -> dict[str, str]:
    """Return the files that are shared with a sandbox, each with its digest."""
    return {name: hashlib.sha256(body).hexdigest() for name, body in base.shared}


def _files(workspace: Workspace) -> Files:
    rows = WorkspaceFile.objects.filter(workspace=workspace).order_by("path")
    known = {
        path: Known(size, bytes.fromhex(blob.removeprefix("sha256:")), executable)
        for path, size, blob, executable in rows.values_list(
            "path", "size", "blob_id", "executable"
        )
    }

    def load(names: list[str]) -> list[WorkFile]:
        found = {file.name: file for file in contents(workspace, names)}
        connection.close()
        return [found[name] for name in names]

    return Files(known, load)


def _judge(answered: Answered) -> CellResult:
    """Say of a cell what is said of any program; what it wrote of itself is read strictly."""
    result = answered.result
    if result.reason is not Reason.OK:
        return CellResult(result, calls=answered.calls)
    try:
        said = read_json(result.result, max_bytes=MAX_SAID)
    except BadJson:
        said = None
    if not isinstance(said, dict):
        said = {}
    match said:
        case {"kind": "done", "ok": True, "value": None | str() as value} if len(said) == 3:
            return CellResult(replace(result, exit_code=0), value, calls=answered.calls)
        case {
            "kind": "done",
            "ok": False,
            "type": str(kind),
            "message": str(message),
            "traceback": str(trace),
        } if len(said) == 5:
            told = trace or f"{kind}: {message}\n"
            stderr = result.stderr + told.encode("utf-8", "replace")
            failed = replace(result, reason=Reason.EXIT, exit_code=1, stderr=stderr)
            return CellResult(failed, calls=answered.calls)
    broken = replace(result, reason=Reason.PROTOCOL_ERROR, detail="The cell's answer is no answer.")
    return CellResult(broken, calls=answered.calls)
