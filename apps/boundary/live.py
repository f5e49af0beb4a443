"""What does the room see of a tool's program while it runs? Its output, line by line, and bounded.

What is shown is passing: the durable part is the call's result. Lines are shown whole, because a
credential that is cut in two looks like none.
"""

from __future__ import annotations

import codecs
from types import TracebackType
from typing import Final

from apps.domain.redaction import redact_text
from apps.domain.words import visible
from apps.rooms.streams import StreamWriter
from apps.runs.models import Call, Run
from apps.runs.services import agent_card, member_card

MAX_SHOWN: Final = 60_000
"""Characters of output that a room sees of one call while it runs."""
MAX_LINE: Final = 2_000
"""Characters of a line that has not ended; a longer one is shown in pieces."""
_CUT: Final = "\n[more is written and not shown here]\n"


class LiveOutput:
    """Shows a room what one call's program writes, from its first piece until the block ends."""

    def __init__(self, *, run: Run, call: Call) -> None:
        self._stream = StreamWriter(
            room_id=run.room_id,
            stream=f"output:{call.pk}",
            of="output",
            run=run.pk,
            agent=agent_card(run.agent),
            member=member_card(run.member),
            revision=run.room.roster_revision,
        )
        self._meta = {"call": str(call.pk), "tool": call.tool, "title": call.title}
        self._open = False
        self._shown = 0
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._unended: dict[str, str] = {}

    def __enter__(self) -> LiveOutput:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Show what is left and end the stream."""
        if not self._open:
            return
        for name, decoder in self._decoders.items():
            self._show(self._unended.pop(name, "") + decoder.decode(b"", final=True))
        self._stream.close("said")

    def say(self, stream: str, output: bytes) -> None:
        """Show a piece of output once its line has ended."""
        if not self._open:
            self._open = True
            self._stream.open(self._meta)
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._unended.get(stream, "") + decoder.decode(output)
        ended = text.rfind("\n") + 1
        if len(text) - ended > MAX_LINE:
            ended = len(text)
        self._unended[stream] = text[ended:]
        self._show(text[:ended])

    def _show(self, text: str) -> None:
        if not text or self._shown >= MAX_SHOWN:
            return
        piece = redact_text(visible(text))[: MAX_SHOWN - self._shown]
        self._shown += len(piece)
        self._stream.feed(piece if self._shown < MAX_SHOWN else piece + _CUT)
