"""How did a program end, whose failure was it, and what is said so that it can be mended?

The program belongs to the caller, so its traceback, its exit code and the limits that it ran into
are the caller's failure and say nothing of the tool. Only the sandbox itself can fail as a tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.redaction import redact_text
from apps.domain.tooling import FaultDomain
from apps.domain.tooling import Reason as Why
from apps.domain.words import storable, visible
from apps.sandbox.spec import Reason, SandboxResult

MAX_TAIL: Final = 6_000
"""Characters of each stream that a model reads."""
MAX_RAISED: Final = 300

_CUT: Final = "[the beginning is left out] "
_RAISED: Final = re.compile(
    r"^(?:Uncaught )?(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Group))"
    r"(?: \[[A-Z_]+\])?(?:: (?P<said>.*))?$",
    re.MULTILINE,
)
# Ends in which the program did not come to its own end, and what is said about them.
_CUT_SHORT: Final = {
    Reason.WALL_TIMEOUT: (Why.TIMEOUT, "The program did not end within its time."),
    Reason.CPU_LIMIT: (Why.LIMIT_EXCEEDED, "The program used more CPU time than it may."),
    Reason.MEMORY_LIMIT: (Why.LIMIT_EXCEEDED, "The program used more memory than it may."),
    Reason.OUTPUT_LIMIT: (Why.LIMIT_EXCEEDED, "The program wrote more output than it may."),
    Reason.TOO_MANY_FILES: (Why.LIMIT_EXCEEDED, "The program made more files than it may."),
    Reason.PROTOCOL_ERROR: (Why.COMMAND_FAILED, "The program wrote where it may not."),
    Reason.CANCELLED: (Why.CANCELLED, "The program was stopped."),
    Reason.DRIVER_UNAVAILABLE: (Why.DEPENDENCY_UNAVAILABLE, "No sandbox could run the program."),
    Reason.DRIVER_FAILED: (
        Why.DEPENDENCY_UNAVAILABLE,
        "The sandbox failed, and whether the program ended is unknown. Nothing of it was kept; run"
        " it again.",
    ),
}
_OURS: Final = {Reason.DRIVER_UNAVAILABLE, Reason.DRIVER_FAILED}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended: with no reason, well."""

    reason: Why | None
    message: str
    raised: str = ""
    exit_code: int | None = None
    domain: FaultDomain | None = FaultDomain.CALLER

    @property
    def well(self) -> bool:
        """Whether the program came to its own end and said that all was well."""
        return self.reason is None


def judge(result: SandboxResult) -> Ending:
    """Say how a program ended."""
    code = result.exit_code
    if result.reason is Reason.OK:
        return Ending(None, "", exit_code=0, domain=None)
    raised = raised_in(result.stderr)
    if result.reason in _CUT_SHORT:
        why, sentence = _CUT_SHORT[result.reason]
        # Only where the sandbox failed may the same input go better the next time.
        domain = None if result.reason in _OURS or why is Why.CANCELLED else FaultDomain.CALLER
        return Ending(why, sentence, raised, code, domain)
    said = f"The program ended with exit code {code}"
    return Ending(Why.COMMAND_FAILED, f"{said}: {raised}" if raised else f"{said}.", raised, code)


def raised_in(stderr: bytes) -> str:
    """Return the exception that a program's last traceback names, with its words."""
    all_found = list(_RAISED.finditer(stderr.decode("utf-8", "replace")))
    if not all_found:
        return ""
    found = all_found[-1]
    said = f"{found['type']}: {found['said']}" if found["said"] else found["type"]
    return redact_text(visible(said))[:MAX_RAISED]


def tail(output: bytes) -> str:
    """Return the end of a stream for a model: readable, redacted, and bounded."""
    text = redact_text(storable(visible(output.decode("utf-8", "replace"))))
    return text if len(text) <= MAX_TAIL else _CUT + text[len(_CUT) - MAX_TAIL :]


def printed(result: SandboxResult) -> dict[str, Any]:
    """Return what a program printed, as it goes back to a model."""
    return {"stdout": tail(result.stdout), "stderr": tail(result.stderr)}


def repair_instruction(ending: Ending, *, unfit: Sequence[str], full: str) -> str:
    """Say how what failed is mended."""
    if ending.reason is Why.TIMEOUT:
        what = f"the program ran out of time{f' ({ending.raised})' if ending.raised else ''}"
        how = "Make it do less, or do it faster"
    elif not ending.well:
        what = ending.raised or ending.message.rstrip(".")
        how = "Read stderr and mend the code"
    elif unfit:
        what = f"{', '.join(unfit[:5])} of artifact_targets is missing or not what its name says"
        how = "Write each of these files whole, under exactly its name and in its format"
    else:
        what = full.rstrip(".")
        how = "Write less into the workspace, or remove what is not needed any more"
    return (
        f"The run failed: {what}. {how}, then call run_code again with the changed program. The"
        " same program again is no repair, and no file exists that the result does not name."
    )
