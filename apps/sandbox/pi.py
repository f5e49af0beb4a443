"""See what a Pi package holds, with Pi's own loader, and run the tools of an approved one.

Nothing authored is believed: every step has a sandbox and a tree of its own, and what comes back
is bounded, read strictly and compared with what was reviewed. A step that fails ends it all; there
is no second way.
"""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Unpack

from apps.core.correlation import current_correlation_id
from apps.domain.commandio.results import BadResult
from apps.domain.egress import NO_NETWORK, Network
from apps.domain.entries import PiEntry
from apps.domain.pipackages import FoundTool, Skill
from apps.domain.piresults import rebuild
from apps.domain.problems import Problem
from apps.domain.wire import JsonValue
from apps.sandbox.client import Around, OnOutput, run
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.node import PI_VARIABLES, heap_judged, node_command
from apps.sandbox.replies import BadReply, read_frame
from apps.sandbox.runner import (
    CUT_SHORT,
    ReplyKind,
    ToolReply,
    Tree,
    encoded,
    files_of,
    harness_file,
    judge_reply,
    lasting,
)
from apps.sandbox.spec import Limits, Reason, SandboxResult, SandboxSpec
from apps.sandboxd.limits import CEILINGS

MAX_OBSERVATION_KIB: Final = 512
MAX_LISTED: Final = 100
MARGIN_S: Final = 1.5
"""How long before its kill a tool is asked to stop."""

NOT_ITS_FAULT: Final = frozenset(
    {Reason.CANCELLED, Reason.DRIVER_UNAVAILABLE, Reason.DRIVER_FAILED}
)
_ROOT: Final = "/package/"
_NEVER_LOADED: Final = 13  # how Node ends when nothing is left to do and a promise still waits
_SHARED: Final = ("channel.mjs", "pi_sdk.mjs")


class NoObservation(Exception):
    """A step of the loader that ended without an answer; the sentence may be shown.

    `ours` tells that it says nothing about the package.
    """

    def __init__(self, sentence: str, *, ours: bool = False) -> None:
        super().__init__(sentence)
        self.ours = ours


@dataclass(frozen=True, slots=True)
class Named:
    """A prompt, a theme or an unsupported registration: its kind, its name and where it lies."""

    kind: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Declared:
    """What a package declares, as Pi's package manager and resource loader see it."""

    runtime: str
    node: str
    extensions: tuple[str, ...]
    skills: tuple[Skill, ...]
    others: tuple[Named, ...]
    diagnostics: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """What a package's extensions registered when Pi's loader loaded them."""

    runtime: str
    tools: tuple[FoundTool, ...]
    unsupported: tuple[Named, ...]
    errors: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class PiLoader:
    """One package under examination: its tree, what it needs, and one deadline for all steps."""

    tree: Tree
    until: float
    dependencies: str = ""
    correlation: str | None = None
    on_output: OnOutput | None = None
    cancelled: Callable[[], bool] | None = None
    path: Path | None = None
    # What is left of the deadline bounds each step, and nothing else does.
    limits: Limits = field(
        default_factory=lambda: replace(Limits.for_node(), wall_ms=CEILINGS.wall_ms)
    )

    def resolve(self, resources: Mapping[str, Sequence[str]]) -> Declared:
        """Resolve what package.json names, without running anything of the package."""
        asked: JsonValue = {
            "declared": {kind: list(entries) for kind, entries in resources.items()}
        }
        fields = self._observe("pi_resolve.mjs", asked)
        return _declared(fields)

    def load(self, extensions: Sequence[str]) -> Registered:
        """Load the extensions in a fresh sandbox that is thrown away, and return what they did."""
        # Read before the first authored line runs, so that nothing authored can answer for us.
        nonce = secrets.token_hex(24)
        paths: JsonValue = [f"{_ROOT}{path}" for path in extensions]
        fields = self._observe("pi_load.mjs", {"nonce": nonce, "paths": paths})
        if not secrets.compare_digest(_text(fields.get("nonce"), 100), nonce):
            raise NoObservation("The loader's answer was forged.")
        return _registered(fields)

    def _observe(self, script: str, asked: JsonValue) -> dict[str, JsonValue]:
        left = self.until - time.monotonic()
        if left <= 0:
            raise NoObservation("The package was not examined before the deadline.")
        spec = SandboxSpec(
            argv=node_command(self.limits, script),
            files=files_of(self.tree),
            harness=harness_file(script, *_SHARED),
            stdin=json.dumps(asked).encode(),
            env=PI_VARIABLES,
            limits=_bounded(self.limits, left),
            correlation_id=self.correlation or current_correlation_id(),
            dependencies=self.dependencies,
            runtimes=("pi", "node"),
        )
        result = heap_judged(
            run(spec, deadline_s=left, on_output=self.on_output, cancelled=self.cancelled,
                path=self.path)
        )  # fmt: skip
        return _observed(result)


def call_pi_tool(
    *,
    tree: Tree,
    entry: PiEntry,
    parameters: JsonValue,
    arguments: Mapping[str, JsonValue],
    dependencies: str = "",
    network: Network = NO_NETWORK,
    limits: Limits | None = None,
    deadline_s: float,
    correlation: str | None = None,
    **around: Unpack[Around],
) -> ToolReply:
    """Run one tool of an approved Pi package once, confined, as Pi would.

    `parameters` is the reviewed schema: an extension that registers another one is not called.
    """
    limits = _bounded(limits or lasting(Limits.for_node(), deadline_s), deadline_s)
    soft_ms = max(100, int((min(deadline_s, limits.wall_ms / 1000) - MARGIN_S) * 1000))
    asked = {
        "path": entry.path,
        "tool": entry.tool,
        "parameters": parameters,
        "arguments": dict(arguments),
        "id": f"call_{uuid.uuid4().hex}",
        "deadline_ms": soft_ms,
    }
    spec = SandboxSpec(
        argv=node_command(limits, "pi_call.mjs"),
        files=files_of(tree),
        harness=harness_file("pi_call.mjs", *_SHARED),
        stdin=encoded(asked),
        env=PI_VARIABLES,
        limits=limits,
        correlation_id=correlation or current_correlation_id(),
        dependencies=dependencies,
        network=network,
        runtimes=("pi", "node"),
    )
    try:
        result = run(spec, deadline_s=deadline_s, **around)
    except SandboxUnavailable as away:
        return ToolReply(ReplyKind.UNAVAILABLE, message=away.message)
    reply = judge_reply(_aborted(heap_judged(result)))
    if reply.kind is not ReplyKind.VALUE:
        return reply
    try:
        return replace(reply, value=rebuild(reply.value))
    except BadResult as problem:
        said = f"{entry.tool} returned what is no result: {problem}"
        return replace(reply, kind=ReplyKind.CONTRACT_ERROR, value=None, message=said)


def _aborted(result: SandboxResult) -> SandboxResult:
    """Call it a timeout where a tool was told to stop."""
    if result.reason is not Reason.OK:
        return result
    try:
        stopped = read_frame(result.result) == {"kind": "aborted"}
    except BadReply:
        return result
    return replace(result, reason=Reason.WALL_TIMEOUT, exit_code=None) if stopped else result


def _bounded(limits: Limits, left: float) -> Limits:
    return replace(limits, wall_ms=max(1, min(limits.wall_ms, int(left * 1000))))


def _observed(result: SandboxResult) -> dict[str, JsonValue]:
    if result.reason in CUT_SHORT:
        sentence = CUT_SHORT[result.reason][1].replace("The tool", "The package")
        raise NoObservation(result.detail or sentence, ours=result.reason in NOT_ITS_FAULT)
    if result.reason is Reason.EXIT and result.exit_code == _NEVER_LOADED:
        raise NoObservation("The package never finished loading.")
    if result.reason is not Reason.OK:
        raise NoObservation(f"The loader's process ended with exit code {result.exit_code}.")
    if len(result.result) > MAX_OBSERVATION_KIB * 1024:
        raise NoObservation("The loader's answer is too long.")
    try:
        return read_frame(result.result)
    except BadReply as problem:
        raise NoObservation(f"The loader ended without a readable answer: {problem}") from None


def _declared(fields: Mapping[str, JsonValue]) -> Declared:
    skills = tuple(
        Skill(
            name=_text(one.get("name"), 200),
            description=_text(one.get("description"), 2000),
            path=_place(one.get("path")),
            body=_text(one.get("body"), 200_000),
        )
        for one in _rows(fields.get("skills"))
    )
    others = tuple(
        Named(kind, _text(one.get("name"), 200), _place(one.get("path")))
        for kind, field_name in (("prompt", "prompts"), ("theme", "themes"))
        for one in _rows(fields.get(field_name))
    )
    extensions = fields.get("extensions")
    return Declared(
        runtime=_text(fields.get("runtime"), 40),
        node=_text(fields.get("node"), 40),
        extensions=tuple(
            _place(one) for one in (extensions if isinstance(extensions, list) else ())
        )[:MAX_LISTED],
        skills=skills,
        others=others,
        diagnostics=tuple(
            Problem(_place(one.get("path")), _text(one.get("rule"), 60), _said(one.get("message")))
            for one in _rows(fields.get("diagnostics"))
        ),
    )


def _registered(fields: Mapping[str, JsonValue]) -> Registered:
    return Registered(
        runtime=_text(fields.get("runtime"), 40),
        tools=tuple(
            FoundTool(
                name=_text(one.get("name"), 200),
                path=_place(one.get("path")),
                parameters=one.get("parameters"),
                description=_text(one.get("description"), 4000),
            )
            for one in _rows(fields.get("tools"))
        ),
        unsupported=tuple(
            Named(_text(one.get("kind"), 40), _text(one.get("name"), 200), _place(one.get("path")))
            for one in _rows(fields.get("unsupported"))
        ),
        errors=tuple(
            Problem(_place(one.get("path")), "load", _said(one.get("error")))
            for one in _rows(fields.get("errors"))
        ),
    )


def _rows(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise NoObservation("The loader's answer has an unknown shape.")
    return [one for one in value[:MAX_LISTED] if isinstance(one, dict)]


def _text(value: JsonValue, most: int) -> str:
    if not isinstance(value, str):
        raise NoObservation("The loader's answer holds something other than text.")
    return value[:most]


def _place(value: JsonValue) -> str:
    """Return a path as the author knows it, relative to the package."""
    return _text(value, 300).removeprefix(_ROOT)


def _said(value: JsonValue) -> str:
    """Return a message without the places of the sandbox it was said in."""
    return _text(value, 1000).replace("file:///package/", "").replace(_ROOT, "")
