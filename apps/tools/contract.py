"""What does a tool's adapter get, and what may it hand back?"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.core.deadlines import Deadline
from apps.domain.tooling import Specification, ToolResult


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls, where, and until when. Identity comes from here, never from arguments."""

    call_id: uuid.UUID
    run_id: uuid.UUID
    room_id: uuid.UUID
    member: User
    agent: Agent
    deadline: Deadline
    cancelled: Callable[[], bool]


Handler = Callable[[dict[str, Any], CallContext], ToolResult]


@dataclass(frozen=True, slots=True)
class Tool:
    """A specification and the code that carries it out."""

    spec: Specification
    handler: Handler
    enabled: bool = True
