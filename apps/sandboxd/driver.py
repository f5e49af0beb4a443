"""Join the parts into a driver: find what is needed, prove that it holds, start sandboxes."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from apps.domain.egress import AddressBlock
from apps.sandboxd.bwrap import NoBubblewrap, find_bubblewrap, world_reachable
from apps.sandboxd.cgroups import GroupTree, find_tree
from apps.sandboxd.describe import in_force, missing
from apps.sandboxd.egress_route import Resolver, Routes
from apps.sandboxd.jobs import Reason, SandboxResult, SandboxSpec
from apps.sandboxd.launch import Host, Launcher, LaunchFailed
from apps.sandboxd.launch import launch as launch_sandbox
from apps.sandboxd.layout import Layout, Runtime
from apps.sandboxd.limits import Limits
from apps.sandboxd.live import LiveSandbox, NotDead
from apps.sandboxd.probe import (
    INSIDE,
    SENTENCES,
    ProbeReport,
    ProbeStatus,
    explain,
    judge,
)
from apps.sandboxd.runtimes import PROOFS, closed, find_runtimes
from apps.sandboxd.seccomp import UnknownMachine
from apps.sandboxd.seccomp import build as build_filter
from apps.sandboxd.strays import end_strays, name_of
from apps.sandboxd.supervise import Call
from apps.sandboxd.uids import NoFreeUid, UidRange, accounts_in, uid_pool

_log = logging.getLogger(__name__)

_PROBE_LIMITS: Final = Limits(wall_ms=10_000, cpu_ms=5_000, memory_mb=128, processes=8)


class NoDriver(RuntimeError):
    """This machine has no usable driver; carries the report for the operator."""

    def __init__(self, report: ProbeReport) -> None:
        super().__init__(report.sentence)
        self.report = report


class Driver(Protocol):
    """A way to run one program confined; others may come beside bubblewrap."""

    def probe(self) -> ProbeReport:
        """Launch the real confinement and look at it from inside."""

    def start(self, spec: SandboxSpec, limits: Limits) -> LiveSandbox:
        """Bring up a sandbox to its gate, or raise LaunchFailed or NoDriver."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator said on the command line."""

    state: Path
    bubblewrap: Path | None = None
    runtime: Path | None = None
    uids: UidRange = field(default_factory=UidRange)
    cgroup_required: bool = False
    egress_exempt: tuple[AddressBlock, ...] = ()
    hidden: tuple[Path, ...] = ()
    stores: tuple[Path, ...] = ()
    node: str = ""
    ready: int = 0
    ready_seconds: int = 0


class Silent:
    """A listener that nobody stands behind."""

    def __init__(self) -> None:
        self._never, self._other = os.pipe2(os.O_CLOEXEC)

    def output(self, stream: str, chunk: bytes) -> None:
        """Ignore it."""

    def fileno(self) -> int:
        """Return a descriptor that never becomes readable."""
        return self._never

    def gave_up(self) -> bool:
        """Say no."""
        return False

    def close(self) -> None:
        """Let go of the descriptors."""
        os.close(self._never)
        os.close(self._other)


class BubblewrapDriver:
    """Bubblewrap with our filter, our limits and, as root, a user id for each sandbox."""

    def __init__(self, options: Options, launcher: Launcher) -> None:
        self._options = options
        self._launcher = launcher
        tag = hashlib.sha256(str(options.state.resolve()).encode()).hexdigest()[:12]
        self._groups: GroupTree | None = find_tree(f"kaizen-{tag}") if _linux() else None
        if self._groups is not None:
            self._groups.sweep_calls()
        self._name = name_of(tag)
        # The caller holds the lock of the state folder: whatever bears this name was left behind.
        if _linux() and (strays := end_strays(self._name)):
            _log.warning("Ended %s launches that an earlier supervisor left", strays)
        self._uids = uid_pool(options.uids)
        self._routes = Routes(Resolver(), options.egress_exempt)
        self._host: Host | None = None

    def close(self) -> None:
        """Remove our part of the control group tree."""
        if self._groups is not None:
            self._groups.sweep()

    def start(self, spec: SandboxSpec, limits: Limits) -> LiveSandbox:
        """Bring up a sandbox to its gate, or raise LaunchFailed or NoDriver."""
        return launch_sandbox(self._ready_host(), spec, limits)

    def probe(self) -> ProbeReport:
        """Launch the real confinement and look at it from inside."""
        self._host = None
        try:
            return self._look()
        except NoDriver as problem:
            return problem.report
        except NoFreeUid as problem:
            return ProbeReport(ProbeStatus.FAILED, str(problem))
        except LaunchFailed as problem:
            status = explain(problem.said)
            sentence = SENTENCES.get(status, f"{problem} {problem.said[:200]}".strip())
            return ProbeReport(status, sentence)

    def _ready_host(self) -> Host:
        if self._host is None:
            self._host = self._find_host()
        return self._host

    def _find_host(self) -> Host:
        if not _linux():
            raise NoDriver(_report(ProbeStatus.NOT_LINUX))
        if self._options.cgroup_required and self._groups is None:
            raise NoDriver(_report(ProbeStatus.NO_CGROUP))
        if taken := self._taken_ids():
            raise NoDriver(
                ProbeReport(
                    ProbeStatus.NO_UID_RANGE,
                    f"User ids of the sandbox range belong to accounts of this machine ({taken}): "
                    "give the supervisor another --uid-range.",
                )
            )
        try:
            program = build_filter()
            bubblewrap = find_bubblewrap(self._options.bubblewrap, self._options.state)
        except UnknownMachine as problem:
            raise NoDriver(ProbeReport(ProbeStatus.NO_FILTER, str(problem))) from problem
        except NoBubblewrap as problem:
            raise NoDriver(ProbeReport(ProbeStatus.NO_BUBBLEWRAP, str(problem))) from problem
        return Host(
            bubblewrap=bubblewrap,
            layout=Layout(
                self._runtime(),
                self._options.hidden,
                self._options.stores,
                find_runtimes(self._options.runtime, self._options.hidden),
            ),
            seccomp=program,
            launcher=self._launcher,
            uids=self._uids,
            groups=self._groups,
            routes=self._routes,
            name=self._name,
        )

    def _taken_ids(self) -> str:
        return ", ".join(accounts_in(self._options.uids)) if self._uids is not None else ""

    def _runtime(self) -> Runtime:
        named = self._options.runtime
        if named is None:
            raise NoDriver(_report(ProbeStatus.NO_RUNTIME))
        # Resolved once: a link out of the folder would point nowhere inside.
        real = (named / "python" if named.is_dir() else named).resolve()
        if not os.access(real, os.X_OK):
            raise NoDriver(_report(ProbeStatus.RUNTIME_UNREADABLE))
        if os.geteuid() == 0 and not world_reachable(real):
            raise NoDriver(_report(ProbeStatus.RUNTIME_UNREADABLE))
        runtime = Runtime(real)
        source = runtime.source
        if source is not None and any(source in one.parents for one in self._options.hidden):
            raise NoDriver(
                ProbeReport(
                    ProbeStatus.NO_RUNTIME,
                    "The sandbox's Python lies in a folder that also holds files of Kaizen: give "
                    "the supervisor another --runtime.",
                )
            )
        return runtime

    def _try(self, spec: SandboxSpec) -> SandboxResult:
        """Run one program of the probe's own to its end."""
        live = self.start(spec, spec.limits)
        listener = Silent()
        try:
            until = time.monotonic() + spec.limits.wall_ms / 1000
            return Call(
                live, spec, spec.limits, (), listener, until, stopping=lambda: False, python=""
            ).run()
        except NotDead:
            return SandboxResult(Reason.DRIVER_FAILED, detail="A sandbox could not be killed.")
        finally:
            listener.close()
            with suppress(OSError):
                live.close()

    def _look(self) -> ProbeReport:
        host = self._ready_host()
        result = self._try(
            SandboxSpec(argv=("python", "-I", "-S", "-c", INSIDE), limits=_PROBE_LIMITS)
        )
        if result.reason is Reason.DRIVER_FAILED:
            return ProbeReport(ProbeStatus.FAILED, result.detail)
        if result.reason is not Reason.OK:
            _log.warning("The probe ended with %s: %r", result.reason, result.stderr[-300:])
            return _report(ProbeStatus.RUNTIME_UNREADABLE)
        found = judge(result.result)
        if not found.readable:
            return ProbeReport(ProbeStatus.FAILED, "The probe inside gave no readable answer.")
        if found.broken:
            names = ", ".join(found.broken)
            return ProbeReport(
                ProbeStatus.LEAKY, f"The confinement does not hold on this machine: {names}."
            )
        return self._describe(host, found.python, self._working_runtimes(host))

    def _working_runtimes(self, host: Host) -> dict[str, str]:
        """Return the version of each runtime that does its work inside."""
        working: dict[str, str] = {}
        limits = replace(Limits.for_node(), wall_ms=_PROBE_LIMITS.wall_ms)
        for name in host.layout.runtimes:
            if not set(closed([name])) <= set(host.layout.runtimes):
                continue
            result = self._try(SandboxSpec(argv=PROOFS[name], limits=limits, runtimes=(name,)))
            if result.reason is Reason.OK:
                working[name] = result.stdout.decode("utf-8", "replace").strip()[:200]
            else:
                _log.warning(
                    "The runtime %s ended with %s: %r", name, result.reason, result.stderr[-300:]
                )
        return working

    def _describe(self, host: Host, python: str, runtimes: Mapping[str, str]) -> ProbeReport:
        said = self._options
        return ProbeReport(
            status=ProbeStatus.READY,
            sentence=f"Sandboxes run Python {python} under bubblewrap {host.bubblewrap.label}.",
            in_force=in_force(
                host,
                runtimes,
                uids=said.uids,
                exempt=said.egress_exempt,
                node=said.node,
                ready=said.ready,
                ready_seconds=said.ready_seconds,
            ),
            missing=missing(host, runtimes),
            python=python,
            runtimes=tuple(runtimes.items()),
        )


def _linux() -> bool:
    return sys.platform == "linux"


def _report(status: ProbeStatus) -> ProbeReport:
    return ProbeReport(status, SENTENCES[status])
