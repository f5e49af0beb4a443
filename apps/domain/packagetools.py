"""What does a package promise of one tool, and how does the boundary judge its calls?"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.commandio.templates import described
from apps.domain.egress import HostRule, Network, NetworkKind, network_of
from apps.domain.entries import (
    CommandEntry,
    Entry,
    FileEntry,
    HttpEntry,
    NodeEntry,
    PiEntry,
    PythonEntry,
)
from apps.domain.filescope.tools import input_schema_of
from apps.domain.httptools import HttpTool, http_tool
from apps.domain.publication import published_name
from apps.domain.runtimes import Runtime, bound_runtimes
from apps.domain.tooling import (
    DEFAULT_TIMEOUT_S,
    MAX_TIMEOUT_S,
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Family,
    Guard,
    Pauses,
    Risk,
    Specification,
    specify,
)

ANY_HOST: Final = "any public host"


@dataclass(frozen=True, slots=True)
class PackageTool:
    """One tool that a package promises, and where its code enters."""

    id: str
    tool_name: str
    ref: str
    entry: Entry
    collaboration: CollaborationClass
    definition_text: bytes
    # The artifact that declares it: what a command or a file tool may look at.
    artifact: str = ""
    # The runtime that it asks for, if it says anything.
    asked: Runtime | None = None
    # The declared request that carries the link of a tool that pauses.
    courier: "PackageTool | None" = None

    @property
    def definition(self) -> dict[str, Any]:
        """A copy of the tool's definition."""
        definition: dict[str, Any] = json.loads(self.definition_text)
        return definition

    @property
    def mutating(self) -> bool:
        """Whether the tool changes something; a definition that is silent does."""
        return self.definition.get("mutating") is not False

    @property
    def runtime(self) -> Runtime:
        """The runtime that it asks for; one that is silent asks for the bare Python."""
        return self.asked or Runtime.PYTHON

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtimes that are bound for its runs, beside the bare Python that all have."""
        return bound_runtimes(self.entry, self.runtime)

    @property
    def limits(self) -> dict[str, int] | None:
        """What the tool asks to be held to (memMB and cpuMs), or nothing where it is silent."""
        return self.definition.get("limits")

    @property
    def request(self) -> HttpTool | None:
        """The request that the tool is, where it is one and no code."""
        return http_tool(self.definition) if isinstance(self.entry, HttpEntry) else None

    @property
    def network(self) -> Network:
        """What a call of the tool may reach: the host of its request, or what its code asks for."""
        request = self.request
        if request is None:
            return network_of(self.definition.get("network"))
        rule = HostRule(request.host, (request.port,))
        return Network(NetworkKind.ALLOWLIST, (rule,))

    @property
    def reaches(self) -> tuple[str, ...]:
        """The hosts that a call may reach, as they are shown."""
        request = self.request
        if request is not None:
            return (request.origin,)
        carried = self.courier.reaches if self.courier is not None else ()
        if self.network.kind is NetworkKind.PUBLIC:
            return (ANY_HOST, *carried)
        return tuple(dict.fromkeys((*map(str, self.network.hosts), *carried)))

    @property
    def link_goes_to(self) -> str:
        """Where the link of a call that waits is sent, as it is shown; empty where none waits."""
        request = self.courier.request if self.courier is not None else None
        if self.courier is None or request is None:
            return ""
        return f"{request.method} {request.origin}{request.path}, by {self.courier.tool_name}"

    @property
    def published(self) -> str:
        """The name under which the tool is recorded: for an artifact's tools with its id."""
        if isinstance(self.entry, CommandEntry | FileEntry):
            return published_name(self.id, self.artifact)
        return self.tool_name

    @property
    def timeout_ms(self) -> int | None:
        """How long the tool asks to be given, where its entry says so."""
        if isinstance(self.entry, CommandEntry):
            return self.entry.timeout_ms
        request = self.request
        return None if request is None else request.timeout_ms

    @property
    def uses_connection(self) -> bool:
        """Whether the tool acts through somebody's account at another system."""
        request = self.request
        return bool(request and request.authorization and request.authorization.connection)

    def specification(self) -> Specification:
        """Return the specification under which the boundary judges the tool's calls."""
        definition = self.definition
        effects = tuple(
            DeclaredEffect(EffectKind(item["kind"]), item.get("resource"))
            for item in definition.get("effects", [])
        )
        effect = _effect_of(self.mutating, effects)
        return specify(
            name=self.tool_name,
            title=_title_of(self.id),
            description=self._description(definition["description"]),
            version=definition["version"],
            input_schema=self._input(definition["input"]),
            output_schema=definition["output"],
            effect=effect,
            capability=Capability.PACKAGES_CALL,
            risk=_RISKS[effect],
            side_effects=effects,
            parallel_safe=effect is Effect.READ
            and not (self._shares or self.uses_connection or self.courier),
            pauses=None if self.courier is None else Pauses(),
            source=f"package:{self.ref}",
            family=Family.PACKAGES,
            surface=self.ref.partition("@")[0],
            guard=Guard.EXTERNAL,
            effect_domain=EffectDomain.EXTERNAL,
            collaboration=self.collaboration,
            # What came from outside is data, whether the author says so or not.
            outside_data=definition.get("resultIsOutsideData") is True
            or bool(self.network)
            or self.courier is not None,
            uses_connection=self.uses_connection,
            reaches=self.reaches,
            needs_approval_when_unattended=definition.get("needsApprovalWhenUnattended") is True,
            timeout_s=self._seconds(),
            later=True,
        )

    @property
    def _shares(self) -> bool:
        # Calls of one session work on one state, so they come one after the other.
        return isinstance(self.entry, CommandEntry) and bool(self.entry.session)

    def _description(self, given: str) -> str:
        if isinstance(self.entry, CommandEntry | FileEntry):
            return described(given, self.artifact)
        return given

    def _input(self, given: dict[str, Any]) -> dict[str, Any]:
        # A file tool is ours, and so is what it takes.
        return input_schema_of(self.entry) if isinstance(self.entry, FileEntry) else given

    def _seconds(self) -> float:
        asked = self.timeout_ms
        if isinstance(self.entry, PythonEntry | NodeEntry | PiEntry):
            # The runner has one deadline for all of them, which no package says anything about.
            own = MAX_TIMEOUT_S
        else:
            own = DEFAULT_TIMEOUT_S if asked is None else asked / 1000
        # What carries the link is sent after the code has run.
        carried = self.courier.timeout_ms if self.courier is not None else None
        return min(own + (carried or 0) / 1000, MAX_TIMEOUT_S)


_RISKS: Final = {Effect.READ: Risk.LOW, Effect.WRITE: Risk.MEDIUM, Effect.SENSITIVE: Risk.HIGH}


def _effect_of(mutating: bool, effects: tuple[DeclaredEffect, ...]) -> Effect:
    if any(item.kind is EffectKind.SENSITIVE_DATA_EGRESS for item in effects):
        return Effect.SENSITIVE
    return Effect.WRITE if mutating else Effect.READ


def _title_of(tool_id: str) -> str:
    words = re.sub(r"[._-]+", " ", tool_id.rpartition(".")[2]).strip()
    return words[:1].upper() + words[1:100]
