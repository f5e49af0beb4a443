"""What may an executed tool hand back, and whose failure was a failure?"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apps.domain.tooling.words import FaultDomain, Reason

# A request that could not be met says nothing of the tool that looked at it.
_CALLERS: Final = frozenset(
    {
        Reason.INVALID_ARGUMENTS,
        Reason.NOT_FOUND,
        Reason.PERMISSION_DENIED,
        Reason.STALE_VERSION,
        Reason.STALE_FILE,
        Reason.CONFLICT,
    }
)
_TOOLS: Final = frozenset(
    {
        Reason.TIMEOUT,
        Reason.COMMAND_FAILED,
        Reason.EXECUTION_ERROR,
        Reason.CONTRACT_ERROR,
        Reason.LIMIT_EXCEEDED,
        Reason.REPORTED_FAILURE,
        Reason.OUTCOME_UNKNOWN,
    }
)


def usual_domain(reason: Reason) -> FaultDomain:
    """Return whose failure a reason names where nobody says otherwise."""
    if reason in _CALLERS:
        return FaultDomain.CALLER
    if reason in _TOOLS:
        return FaultDomain.TOOL
    if reason is Reason.DEPENDENCY_UNAVAILABLE:
        return FaultDomain.DEPENDENCY
    return FaultDomain.BOUNDARY


@dataclass(frozen=True, slots=True)
class ToolImage:
    """An image of a result. The value tells it by its digest; its bytes are kept apart."""

    mime_type: str
    content: bytes

    @property
    def digest(self) -> str:
        """The digest of its bytes, as the value tells it."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"


@dataclass(frozen=True, slots=True)
class ToolOk:
    """A tool's success: its JSON value and the keys of the artifacts that it saved."""

    value: Any
    artifacts: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What the call stood on, kept with its record and shown to no model: digests, limits."""
    images: tuple[ToolImage, ...] = ()
    """What of the value is to be looked at, for a model that can."""


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """An anticipated failure, returned and never raised, naming what was saved all the same.

    A tool that relays the failure of its caller's own program says so with `domain`. One whose
    failure no other tool may stand in for says `non_substitutable`: the model may explain, no more.
    The exit status is of a program that the tool ran, for whoever reads the log. `details` is a
    JSON object that the model reads beside the message, redacted and bounded as results are. A tool
    of our own that wrote down what its refusal shows, or where to go on, and changed nothing else,
    says `keeps_notes`: otherwise whatever it wrote is undone. `stated` says that the message is
    what the tool answered, in its own words: it may be as long as any result, while a sentence
    about a failure is short.
    """

    reason: Reason
    message: str
    retryable: bool = False
    saved: tuple[str, ...] = ()
    domain: FaultDomain | None = None
    non_substitutable: bool = False
    exit_status: int | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    details: dict[str, Any] | None = None
    keeps_notes: bool = False
    stated: bool = False

    @property
    def fault(self) -> FaultDomain:
        """Whose failure it was: as the tool says, or as its reason usually means."""
        return self.domain or usual_domain(self.reason)


@dataclass(frozen=True, slots=True)
class ToolHandedOn:
    """The tool set something going that ends the call later, and committed only its beginning."""

    to: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The tool has handed its link to another system, and the call waits for the answer.

    Without a number of seconds the tool's declaration says how long.
    """

    seconds: float | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """How the link was handed over, kept with the record of the wait and shown to no model."""


@dataclass(frozen=True, slots=True)
class ToolPrepared:
    """The tool did its work apart, and what is kept of it commits with the call's settlement.

    `keep` runs in the transaction that settles the call, with run and call locked, and says how
    the call ended. Where that never happens, nothing was kept.
    """

    keep: Callable[[], ToolOk | ToolFailure]


ToolResult = ToolOk | ToolFailure | Paused | ToolHandedOn | ToolPrepared
