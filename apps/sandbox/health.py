"""How is the sandbox, for probes? Without one, its tools are not offered; the rest goes on."""

from __future__ import annotations

from apps.core.health import Part, Word
from apps.sandbox.selectors import sandbox_state

PATIENCE = 1.0
"""A probe of the whole deployment must not hang because its sandbox does."""


def sandbox_part() -> Part:
    """Return whether code can run confined, with all that the operator's check says of it."""
    state = sandbox_state(patience=PATIENCE)
    word = Word.OK if state.ready else Word.OFF
    return Part("sandbox", word, state.story, needed=False)
