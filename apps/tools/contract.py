"""What does a tool's adapter get, and what may it hand back?"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.core.deadlines import Deadline
from apps.domain.pinning import Pins
from apps.domain.tooling import Descriptor, Specification, ToolResult, project_schema
from apps.domain.tooling.features import Feature
from apps.runs.claims import RunHold
from apps.runs.models import Run
from apps.tools.credentials import Credential
from apps.tools.features import cannot_confine, feature_is_on, lacking, sandbox_is_there


def say_nothing(stream: str, output: bytes) -> None:
    """Show nobody what a tool says while it runs."""


class InnerAnswer(NamedTuple):
    """What came of a call that a tool's own program asked for: one JSON text, bounded."""

    ok: bool
    value: bytes


CallTool = Callable[[str, bytes], InnerAnswer]


def no_inner_calls(name: str, arguments: bytes) -> InnerAnswer:
    """Refuse every call that a tool's program asks for."""
    return InnerAnswer(False, b'"No tool can be called from here."')


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
    wait_link: Callable[[], str]
    """The link under which another system may answer a call of a tool that pauses; made once."""
    credential: Credential | None = None
    """The handle of a tool that declares that it uses a connection; it holds no value."""
    hold: RunHold | None = None
    """The hold under which the run works, for services that compare it; opaque to a tool."""
    say: Callable[[str, bytes], None] = say_nothing
    """Shows the room a piece of what the tool's program writes, by the name of its stream."""
    call_tool: CallTool = no_inner_calls
    """Makes a call that the tool's program asks for, by name and JSON arguments: reads alone."""


Handler = Callable[[dict[str, Any], CallContext], ToolResult]


@dataclass(frozen=True, slots=True)
class Tool:
    """A specification, the code that carries it out, and what this deployment made of both."""

    spec: Specification
    handler: Handler
    feature: Feature | None = None
    """The switch of the deployment that it hangs on, if any."""
    needs_sandbox: bool = False
    """Whether it is there only while code can run confined."""
    runs_code: bool = False
    """Whether its calls are handed to a worker that runs code, on this machine or on another."""
    goes_with: str = ""
    """The tool without which this one is not offered, if any."""
    pins: Pins = field(default_factory=Pins)
    """The arguments that the deployment sets itself."""

    unfit: str = ""
    """Why such a tool cannot be called here at all, in one sentence, if it cannot."""
    runtimes: frozenset[str] = frozenset()
    """The runtimes of the sandbox that it stands on, beside the bare one."""
    home: Callable[[dict[str, Any], Run], str] | None = None
    """Names the other node on which a call has to be carried out, or nothing to stay here."""

    @property
    def hindrance(self) -> str:
        """Why it cannot be called in this deployment now, in one sentence; empty where it can."""
        if self.feature is not None and not feature_is_on(self.feature):
            return "The tool is switched off."
        if self.unfit:
            return self.unfit
        if (self.needs_sandbox and not sandbox_is_there()) or (self.runs_code and cannot_confine()):
            return "Code cannot run confined here, so the tool is off."
        return lacking(self.runtimes)

    @property
    def digest(self) -> str:
        """The digest of the whole contract, with what is pinned of it."""
        return self.pins.digest_of(self.spec)

    def descriptor(self) -> Descriptor:
        """Return what a model sees of this tool; what is pinned it does not."""
        spec = self.spec
        schema = project_schema(spec.input_schema, without=self.pins.names)
        return Descriptor(spec.name, spec.description, schema)
