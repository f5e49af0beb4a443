"""How is the sandbox, for probes? Without one, its tools are not offered; the rest goes on."""

from __future__ import annotations

from apps.core.health import Part, Word
from apps.sandbox.selectors import SandboxState, sandbox_state

PATIENCE = 1.0
"""A probe of the whole deployment must not hang because its sandbox does."""


CLOSE_PATIENCE = 20.0
"""A fresh probe launches the confinement and tries every runtime; a page does not wait longer."""


def sandbox_part() -> Part:
    """Return whether code can run confined, with all that the operator's check says of it."""
    return _part_of(sandbox_state(patience=PATIENCE))


def sandbox_closely() -> Part:
    """Return the same after a probe of its own, with what parses edits, as the doctor does."""
    return _part_of(sandbox_state(fresh=True, patience=CLOSE_PATIENCE, with_syntax=True))


def _part_of(state: SandboxState) -> Part:
    python = [("python", state.python)] if state.python else []
    return Part(
        "sandbox",
        Word.OK if state.ready else Word.OFF,
        state.sentence,
        needed=False,
        in_force=state.in_force,
        missing=state.missing,
        mend=state.mend,
        versions=(*python, *state.runtimes.items()),
    )
