"""Tell pages and checks whether code can run confined, and why not."""

from __future__ import annotations

from dataclasses import dataclass

from apps.sandbox.client import available


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What an operator wants to know about the sandbox, in sentences."""

    ready: bool
    status: str
    sentence: str
    in_force: tuple[str, ...]
    missing: tuple[str, ...]
    python: str


def sandbox_state(*, fresh: bool = False, patience: float | None = None) -> SandboxState:
    """Return whether sandboxes work now, what is in force, and what is missing."""
    report = (
        available(fresh=fresh) if patience is None else available(fresh=fresh, patience=patience)
    )
    return SandboxState(
        ready=report.ok,
        status=report.status.value,
        sentence=report.sentence,
        in_force=report.in_force,
        missing=report.missing,
        python=report.python,
    )
