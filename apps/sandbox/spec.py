"""Say what is asked of a sandbox and what comes back; the words that callers use."""

from __future__ import annotations

from apps.sandboxd.jobs import Output, Reason, SandboxResult, SandboxSpec, Stats
from apps.sandboxd.limits import Clamp, Limits
from apps.sandboxd.probe import ProbeReport, ProbeStatus
from apps.sandboxd.workfiles import LeftOut, WorkChanges, WorkFile

__all__ = [
    "Clamp",
    "LeftOut",
    "Limits",
    "Output",
    "ProbeReport",
    "ProbeStatus",
    "Reason",
    "SandboxResult",
    "SandboxSpec",
    "Stats",
    "WorkChanges",
    "WorkFile",
]
