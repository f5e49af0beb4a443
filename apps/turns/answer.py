"""What has the model said so far in this step, and what may the room already see of it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from apps.approvals.wishes import asking_of_all
from apps.domain.canonical import BadJson, strict_loads
from apps.domain.policy.modes import may_ask
from apps.domain.streaming import ArgumentStream
from apps.domain.tooling import MAX_ARGUMENT_CAP, CallState, Outcome
from apps.domain.words import joined, storable
from apps.rooms.streams import StreamWriter
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.runs.services import agent_card, member_card
from apps.tools.catalog import canonical_name
from apps.tools.contract import Tool
from apps.turns.provider import (
    ArgumentsDelta,
    CallStarted,
    Delta,
    ProviderFailed,
    TextDelta,
    Usage,
)

MAX_ANSWER = 200_000
MAX_ARGUMENTS = 2 * MAX_ARGUMENT_CAP
"""Characters of the arguments of all calls of one answer."""
MAX_ID = 200
"""Characters of a call's id or name that are kept of what a model wrote."""


@dataclass(slots=True)
class ProposedCall:
    """A tool call as it is being written."""

    proposal_id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    size: int = 0
    reader: ArgumentStream | None = None
    preview: StreamWriter | None = None
    held_back: bool = False
    call: Call | None = None

    @property
    def arguments_text(self) -> str:
        """The argument text as far as it has arrived."""
        return joined("".join(self.arguments))

    @property
    def is_whole(self) -> bool:
        """Whether what has arrived is one complete JSON object."""
        try:
            return isinstance(strict_loads(self.arguments_text, max_bytes=MAX_ARGUMENT_CAP), dict)
        except BadJson:
            return False


class Answer:
    """One step's answer while it streams: its text, its calls, and their previews.

    A preview is ephemeral. It is opened only for a tool that declares a previewed argument and
    that can never need a person's yes, so nothing is shown of what somebody may still deny. One
    that so far reads like a write which this turn has already made is held back until it differs.

    A hushed answer shows none of its text while it streams, one without previews none of its calls.
    """

    def __init__(
        self,
        *,
        run: Run,
        step: int,
        tools: Iterable[Tool],
        made: Mapping[str, Sequence[dict[str, Any]]] | None = None,
        hushed: bool = False,
        previews: bool = True,
    ) -> None:
        self._previews = previews
        self.step = step
        self._run = run
        self._made = made or {}
        self.hushed = hushed
        self.stored = False
        self.usage: Usage | None = None
        offered = list(tools)
        self._tools = {tool.spec.name: tool for tool in offered}
        # Read once and now: nothing is asked of the database while the model speaks.
        self._asking = asking_of_all(run, [tool.spec for tool in offered])
        self._text: list[str] = []
        self._size = self._arguments_size = 0
        self._calls: dict[int, ProposedCall] = {}
        self._saying: StreamWriter | None = None

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return storable("".join(self._text))

    @property
    def proposals(self) -> list[ProposedCall]:
        """The proposed calls, in the order in which the model gave them."""
        return [self._calls[index] for index in sorted(self._calls)]

    def hear(self, delta: Delta) -> None:
        """Take one delta, and let the room see what it may."""
        match delta:
            case TextDelta(text=text):
                self._grow(len(text))
                self._text.append(text)
                if not self.hushed:
                    self._say(text)
            case CallStarted(index=index, call_id=call_id, name=name):
                self._calls[index] = self._begin(index, call_id, name)
            case ArgumentsDelta(index=index, text=text):
                self._arguments(self._calls[index], text, index)
            case Usage():
                self.usage = delta

    def keep_whole_calls(self) -> bool:
        """Keep the calls that arrived complete before the answer broke off; False where none did.

        Whatever follows the first incomplete one was decided after it, and goes with it.
        """
        whole = 0
        for proposed in self.proposals:
            if not proposed.is_whole:
                break
            whole += 1
        self.keep_calls(self.proposals[:whole])
        return whole > 0

    def keep_calls(self, kept: Sequence[ProposedCall]) -> None:
        """Leave out every other call, and take back what was shown of it."""
        for index, proposed in list(self._calls.items()):
            if not any(proposed is one for one in kept):
                self._take_back(proposed)
                del self._calls[index]

    def name_call(self, place: int, call: Call) -> None:
        """Tie a proposed call to the row that now stands for it."""
        self.proposals[place].call = call

    def settled_at_once(self) -> Iterator[Call]:
        """The calls that were refused as invalid when they were stored."""
        for proposed in self.proposals:
            if proposed.call is not None and proposed.call.state == CallState.SETTLED.value:
                yield proposed.call

    def said(self) -> None:
        """The text is now a durable message, or there was none."""
        self.stored = True
        if self._saying is not None:
            self._saying.close("said")
            self._saying = None

    def close_preview(self, call: Call) -> None:
        """Tell the viewers of a preview what became of it."""
        for proposed in self.proposals:
            if proposed.preview is None or proposed.call is None or proposed.call.pk != call.pk:
                continue
            saved = _saved(call)
            if saved is None:
                proposed.preview.close("dropped")
            else:
                proposed.preview.close("saved", artifact=saved[0], version=saved[1])
            proposed.preview = None

    def drop(self) -> None:
        """Take back everything that was shown and not stored."""
        if self._saying is not None:
            self._saying.close("dropped")
            self._saying = None
        for proposed in self.proposals:
            self._take_back(proposed)

    def _take_back(self, proposed: ProposedCall) -> None:
        if proposed.preview is not None:
            proposed.preview.close("dropped")
            proposed.preview = None

    def _say(self, text: str) -> None:
        if self._saying is None:
            self._saying = self._stream(f"say-{self._run.pk}-{self.step}", "say")
            self._saying.open({})
        self._saying.feed(text)

    def _begin(self, index: int, call_id: str, name: str) -> ProposedCall:
        ident = storable(call_id)[:MAX_ID]
        if not ident or any(known.proposal_id == ident for known in self._calls.values()):
            # Each result goes back under its call's id, so within a step no two are the same.
            ident = f"call-{self.step}-{index}"
        name = canonical_name(name)
        proposed = ProposedCall(proposal_id=ident, name=storable(name)[:MAX_ID])
        tool = self._tools.get(name)
        if tool is None or tool.spec.previewed_argument is None or self._may_ask(tool):
            return proposed
        if not self._previews:
            return proposed
        proposed.reader = ArgumentStream(tool.spec.previewed_argument)
        proposed.held_back = bool(self._made.get(name))
        if not proposed.held_back:
            self._open_preview(proposed, index)
        return proposed

    def _open_preview(self, proposed: ProposedCall, index: int) -> StreamWriter:
        preview = self._stream(f"call-{self._run.pk}-{self.step}-{index}", "artifact")
        preview.open({"tool": proposed.name})
        proposed.preview, proposed.held_back = preview, False
        return preview

    def _may_ask(self, tool: Tool) -> bool:
        return may_ask(tool.spec, self._asking[tool.spec.name])

    def _arguments(self, proposed: ProposedCall, text: str, index: int) -> None:
        proposed.size += len(text)
        self._arguments_size += len(text)
        if proposed.size > MAX_ARGUMENT_CAP or self._arguments_size > MAX_ARGUMENTS:
            raise ProviderFailed("The model's arguments grew past every bound.", deterministic=True)
        proposed.arguments.append(text)
        if proposed.reader is None or (proposed.preview is None and not proposed.held_back):
            return
        if proposed.preview is None:
            proposed.reader.feed(text)
            if not proposed.reader.broken and not self._may_repeat(proposed.name, proposed.reader):
                preview = self._open_preview(proposed, index)
                preview.feed(proposed.reader.text, dict(proposed.reader.strings))
            return
        known = len(proposed.reader.strings)
        shown = proposed.reader.feed(text)
        strings = proposed.reader.strings
        meta = dict(strings) if len(strings) != known else None
        if shown or meta:
            proposed.preview.feed(shown, meta)
        if proposed.reader.broken:
            proposed.preview.close("dropped")
            proposed.preview = None

    def _may_repeat(self, name: str, reader: ArgumentStream) -> bool:
        """Tell whether what has been written may still become a write that was already made."""
        return any(
            str(made.get(reader.previewed or "", "")).startswith(reader.text)
            and all(made.get(key) == value for key, value in reader.strings.items())
            for made in self._made.get(name, ())
        )

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size > MAX_ANSWER:
            raise ProviderFailed("The model's answer grew past every bound.", deterministic=True)

    def _stream(self, name: str, of: Literal["say", "artifact"]) -> StreamWriter:
        run = self._run
        return StreamWriter(
            room_id=str(run.room_id),
            stream=name,
            of=of,
            run=str(run.pk),
            agent=agent_card(run.agent),
            member=member_card(run.member),
            revision=run.room.roster_revision,
        )


def listen(*, answer: Answer, deltas: Iterable[Delta]) -> None:
    """Hear a provider out."""
    for delta in deltas:
        answer.hear(delta)


def _saved(call: Call) -> tuple[str, int] | None:
    if call.outcome != Outcome.OK.value:
        return None
    artifacts = (projection_of(call) or {}).get("artifacts") or []
    if not artifacts:
        return None
    ident, _, version = str(artifacts[0]).partition(":")
    return ident, int(version)
