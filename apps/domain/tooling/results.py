"""What may an executed tool hand back?"""

from dataclasses import dataclass
from typing import Any

from apps.domain.tooling.words import Reason


@dataclass(frozen=True, slots=True)
class ToolOk:
    """A tool's success: its JSON value and the keys of the artifacts that it saved."""

    value: Any
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """An anticipated failure, returned and never raised, naming what was saved all the same."""

    reason: Reason
    message: str
    retryable: bool = False
    saved: tuple[str, ...] = ()


ToolResult = ToolOk | ToolFailure
