"""Tell pages and checks whether code can run confined, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apps.sandbox.client import NO_ANSWER, NOT_ALLOWED, NOT_CONFIGURED, available
from apps.sandbox.leases import this_node
from apps.sandbox.spec import ProbeReport, ProbeStatus
from apps.sandbox.syntax.ask import confined_grammar

_OUTSIDE: Final = "run Kaizen on a Linux machine of its own, or switch off what runs code"
# What an operator does about each finding, beside what the finding itself says.
_MENDS: Final[Mapping[ProbeStatus, str]] = {
    ProbeStatus.NOT_RUNNING: "Start it with `make up`, or with `python -m apps.sandboxd`.",
    ProbeStatus.NOT_LINUX: "To run code, run Kaizen on Linux; everything else works without.",
    ProbeStatus.NO_BUBBLEWRAP: (
        "Install the distribution's package `bubblewrap`, or run `make venv` for the one of"
        " requirements.txt; then start the supervisor again."
    ),
    ProbeStatus.NO_FILTER: "To run code, run Kaizen on an x86-64 or aarch64 processor.",
    ProbeStatus.NO_USER_NAMESPACES: (
        "Run `sysctl user.max_user_namespaces=15000`, and where it exists"
        " `sysctl kernel.unprivileged_userns_clone=1`."
    ),
    ProbeStatus.BLOCKED: (
        "Allow user namespaces for bubblewrap, on Ubuntu with"
        " `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in a container, with a seccomp"
        " profile that allows them."
    ),
    ProbeStatus.PROC_MASKED: f"Start the container with an unmasked /proc; or {_OUTSIDE}.",
    ProbeStatus.NO_UID_RANGE: "Start the supervisor with a --uid-range of ids that nobody has.",
    ProbeStatus.NO_RUNTIME: (
        "Run `make venv`, and start the supervisor with a --runtime outside of Kaizen's own files."
    ),
    ProbeStatus.RUNTIME_UNREADABLE: (
        "Let every user enter the folders above the supervisor's --runtime and read it, or name"
        " another place in KAIZEN_RUNTIMES and run `make venv` again."
    ),
    ProbeStatus.NO_PRLIMIT: "Install the distribution's package `util-linux`.",
    ProbeStatus.NO_CGROUP: (
        "Delegate a control group to the supervisor (systemd: Delegate=cpu memory pids), or start"
        " it without --cgroup-required."
    ),
    ProbeStatus.LEAKY: (
        "Run no code here: this kernel or container does not keep what bubblewrap was asked for;"
        f" {_OUTSIDE}."
    ),
    ProbeStatus.FAILED: "Read what the supervisor wrote to its log, and start it again.",
}
_OF_CALLERS: Final[Mapping[str, str]] = {
    NOT_CONFIGURED: "Name the supervisor's socket in KAIZEN_SANDBOXD_SOCKET.",
    NO_ANSWER: (
        "Its first look at everything takes up to a minute, so ask again; where that does not help,"
        " read what it wrote to its log."
    ),
    NOT_ALLOWED: "Start the supervisor with --allow-uid and the id of the user that asks.",
}


def mend_of(report: ProbeReport) -> str:
    """Say what an operator does so that code can run, or nothing where it can."""
    if report.ok:
        return ""
    return _OF_CALLERS.get(report.sentence) or _MENDS[report.status]


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What an operator wants to know about the sandbox, in sentences."""

    ready: bool
    status: str
    sentence: str
    in_force: tuple[str, ...]
    missing: tuple[str, ...]
    python: str
    runtimes: dict[str, str]
    node: str
    mend: str = ""


def sandbox_state(
    *, fresh: bool = False, patience: float | None = None, with_syntax: bool = False
) -> SandboxState:
    """Return whether sandboxes work now, what is in force, and what is missing.

    `with_syntax` also starts the confined process that parses for this one, and asks it.
    """
    report = (
        available(fresh=fresh) if patience is None else available(fresh=fresh, patience=patience)
    )
    in_force, missing = list(report.in_force), list(report.missing)
    if with_syntax:
        problem = confined_grammar().examine()
        if problem:
            missing.append(
                f"No confined parser, so edits are not checked for syntax: {problem} Run"
                " `make venv`, and start Kaizen again."
            )
        else:
            in_force.append(
                "syntax: a confined process of its own parses what members edit; it can open no "
                "file, make no socket and start nothing"
            )
    return SandboxState(
        ready=report.ok,
        status=report.status.value,
        sentence=report.sentence,
        in_force=tuple(in_force),
        missing=tuple(missing),
        python=report.python,
        runtimes=dict(report.runtimes),
        node=this_node(),
        mend=mend_of(report),
    )
