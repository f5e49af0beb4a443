"""What does one call look like while it crosses, and how may the crossing end?"""

from __future__ import annotations

from dataclasses import dataclass

from apps.boundary.standing import Standing
from apps.domain.tooling import EffectDomain, Guard, Outcome, ToolFailure, ToolImage, ToolOk
from apps.runs.models import Call, Run
from apps.tools.contract import Tool


@dataclass(frozen=True, slots=True)
class Crossing:
    """A call on its way, with its run. Both rows are locked while a step writes."""

    run: Run
    call: Call
    tool: Tool | None
    standing: Standing | None = None
    """How things stand, where that was read under this very lock; else it is read to decide."""

    @property
    def leaves_us(self) -> bool:
        """Whether the effect lies outside our tables, so that the call takes from a quota.

        What is quick and only ours is bounded by its turn, and pays no statement for it.
        """
        return self.tool is None or self.tool.spec.guard is not Guard.MEMBER_STORE

    @property
    def keeps_at_its_end(self) -> bool:
        """Whether all that the call's tool keeps commits with its settlement, as it was proposed.

        Of such a call it is known that nothing was kept while it has not settled.
        """
        tool = self.tool
        return (
            tool is not None
            and tool.spec.later
            and tool.spec.effect_domain is EffectDomain.CHECKPOINTED
            and tool.digest == self.call.descriptor_digest
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """The call has its one outcome."""

    call: Call


@dataclass(frozen=True, slots=True)
class Waiting:
    """The call waits: for a yes, a worker or a child run. Whoever settles it wakes the run."""

    call: Call


Crossed = Settled | Waiting


@dataclass(frozen=True, slots=True)
class Begun:
    """The call is dispatched, and its tool is about to run."""

    crossing: Crossing
    rule: str

    @property
    def tool(self) -> Tool:
        """The tool that was admitted."""
        if self.crossing.tool is None:
            raise LookupError("Only a resolved tool is ever dispatched.")
        return self.crossing.tool


@dataclass(frozen=True, slots=True)
class Executed:
    """How the tool's own code ended, before anything of it is shown to a model.

    The explanation is a sentence of ours that everybody in the room may read; what a tool itself
    says of its failure goes to the model and its member alone.
    """

    outcome: Outcome
    result: ToolOk | ToolFailure
    explanation: str = ""

    @property
    def failure(self) -> ToolFailure | None:
        """The failure, where there was one."""
        return self.result if isinstance(self.result, ToolFailure) else None

    @property
    def images(self) -> tuple[ToolImage, ...]:
        """The images of a success."""
        return self.result.images if isinstance(self.result, ToolOk) else ()

    @property
    def reason(self) -> str:
        """The reason code of a failure, or nothing."""
        return self.failure.reason.value if self.failure is not None else ""
