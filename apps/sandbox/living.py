"""Ask the supervisor for sandboxes that live on: open one, ask something of it, close it.

Everything that comes back is untrusted: bytes first, judged by whoever asked.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypedDict

from apps.domain.wire import BadFrame, Message, MessageReader, encode
from apps.sandbox.client import OnOutput, ceilings, connection, refusal_of, socket_path
from apps.sandbox.errors import JobRefused, SandboxUnavailable
from apps.sandboxd.jobs import (
    MAX_DEADLINE_MS,
    MAX_REPLY_BODY,
    BadJob,
    Reason,
    SandboxResult,
    check_spec,
)
from apps.sandboxd.kernel_wire import (
    Answered,
    Closed,
    Opened,
    Opening,
    Request,
    check_key,
    decode_answered,
    decode_closed,
    decode_opened,
    encode_opening,
    encode_request,
)
from apps.sandboxd.limits import clamp
from apps.sandboxd.workfiles import Known, WorkFile, bodies_of, rows_of

_OPEN_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 90.0
_GRACE_SECONDS: Final = 20.0
_LISTEN_SECONDS: Final = 0.2

OnCall = Callable[[str, bytes], tuple[bool, bytes]]
"""Given a tool's name and its arguments as JSON, returns whether it went well and one JSON text."""


class Place(TypedDict):
    """Under which key a sandbox lives, and who alone may ask for it."""

    key: str
    owner: str


def no_calls(name: str, arguments: bytes) -> tuple[bool, bytes]:
    """Refuse every call that comes out of a sandbox."""
    return False, b'"No tool can be called from here."'


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a workspace has to hold, and where the bytes of those come from that it
    does not hold yet.
    """

    known: Mapping[str, Known]
    load: Callable[[list[str]], list[WorkFile]]


def open_living(opening: Opening, *, path: Path | None = None) -> Opened:
    """Return the sandbox that lives under this key, started now where there is none.

    Raises SandboxUnavailable, SandboxBusy or JobRefused.
    """
    limits, _ = clamp(opening.spec.limits, ceilings())
    try:
        wish = replace(opening, spec=check_spec(replace(opening.spec, limits=limits)))
        data = encode(encode_opening(wish))
    except (BadJob, BadFrame) as problem:
        raise JobRefused(str(problem)) from problem
    answer = _ask(data, path=path, seconds=_OPEN_SECONDS)
    try:
        return decode_opened(answer)
    except BadFrame as problem:
        raise SandboxUnavailable("The sandbox supervisor sent something unreadable.") from problem


def close_living(
    *, key: str, owner: str, path: Path | None = None, seconds: float = _CLOSE_SECONDS
) -> Closed:
    """End a sandbox that lives on; return once everything of it is dead."""
    message = Message("close", {"key": check_key(key), "owner": check_key(owner)})
    answer = _ask(encode(message), path=path, seconds=seconds)
    try:
        return decode_closed(answer)
    except BadFrame as problem:
        raise SandboxUnavailable("The sandbox supervisor sent something unreadable.") from problem


def _ask(data: bytes, *, path: Path | None, seconds: float) -> Message:
    reader = MessageReader(max_body=MAX_REPLY_BODY)
    with connection(path or socket_path()) as link:
        link.settimeout(seconds)
        try:
            link.sendall(data)
            while received := link.recv(256 * 1024):
                for message in reader.feed(received):
                    if message.kind == "refused":
                        raise refusal_of(message)
                    return message
        except TimeoutError as problem:
            raise SandboxUnavailable("The sandbox supervisor did not answer in time.") from problem
        except (OSError, BadFrame) as problem:
            raise SandboxUnavailable("The sandbox supervisor did not answer.") from problem
    raise SandboxUnavailable("The sandbox supervisor ended the conversation.")


def ask_living(
    *,
    key: str,
    owner: str,
    generation: str,
    line: bytes,
    deadline_s: float,
    files: Files | None = None,
    outputs: tuple[str, ...] = (),
    collect: bool = False,
    on_output: OnOutput | None = None,
    on_call: OnCall = no_calls,
    cancelled: Callable[[], bool] | None = None,
    path: Path | None = None,
) -> Answered:
    """Ask one thing of a living sandbox and return once it is carried out, or all of it is dead.

    With `files`, the workspace is made equal to them first, and what changed since comes back;
    with `collect`, all that lies in it does. Raises KernelLost where there is no such sandbox any
    more, SandboxBusy where it did not become free in time, and JobRefused where its workspace does
    not take the files: then nothing was carried out. An answer that never came says so.
    """
    try:
        request = Request(
            key=key,
            owner=owner,
            generation=generation,
            line=line,
            deadline_ms=min(MAX_DEADLINE_MS, max(1, int(deadline_s * 1000))),
            workspace=None if files is None else files.known,
            outputs=outputs,
            collect=collect,
        )
        data = encode(encode_request(request))
    except (BadJob, BadFrame) as problem:
        raise JobRefused(str(problem)) from problem
    with connection(path or socket_path()) as link:
        conversation = _Conversation(link, deadline_s, files, on_output, on_call, cancelled)
        return conversation.hold(data)


def _unheard(sentence: str) -> Answered:
    """Return what is known of a request that was handed in, and whose answer never came.

    Whoever hangs up is taken for gone, and what they asked is ended: so nobody goes on with it.
    """
    said = f"{sentence} Whether what was asked was carried out is unknown."
    return Answered(SandboxResult(Reason.DRIVER_FAILED, detail=said), unheard=True)


class _Conversation:
    """One request over one connection."""

    def __init__(
        self,
        link: socket.socket,
        deadline_s: float,
        files: Files | None,
        on_output: OnOutput | None,
        on_call: OnCall,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self._link = link
        self._until = time.monotonic() + deadline_s + _GRACE_SECONDS
        self._files = files
        self._on_output = on_output
        self._on_call = on_call
        self._cancelled = cancelled
        self._told_to_stop = False
        self._reader = MessageReader(max_body=MAX_REPLY_BODY)

    def hold(self, data: bytes) -> Answered:
        try:
            self._send(data)
        except OSError as problem:
            # It never had the whole request, so it carried nothing out.
            raise SandboxUnavailable("The connection to the sandbox supervisor broke.") from problem
        try:
            while time.monotonic() < self._until:
                self._maybe_cancel()
                try:
                    received = self._link.recv(256 * 1024)
                except TimeoutError:
                    continue
                if not received:
                    return _unheard("The sandbox supervisor ended the conversation.")
                for message in self._reader.feed(received):
                    if (answered := self._take(message)) is not None:
                        return answered
        except BadFrame:
            return _unheard("The sandbox supervisor sent something unreadable.")
        except OSError:
            return _unheard("The connection to the sandbox supervisor broke.")
        return _unheard("The sandbox supervisor did not answer in time.")

    def _send(self, data: bytes) -> None:
        self._link.settimeout(_GRACE_SECONDS)
        self._link.sendall(data)
        self._link.settimeout(_LISTEN_SECONDS)

    def _maybe_cancel(self) -> None:
        if self._told_to_stop or self._cancelled is None or not self._cancelled():
            return
        self._told_to_stop = True
        self._send(encode(Message("cancel")))

    def _take(self, message: Message) -> Answered | None:
        match message.kind:
            case "output":
                stream = message.fields.get("stream")
                if self._on_output is not None and stream in ("stdout", "stderr"):
                    self._on_output(str(stream), message.body)
            case "call":
                number, name = message.fields.get("number"), message.fields.get("name")
                if type(number) is not int or not isinstance(name, str):
                    raise BadFrame("A call has no number or no name.")
                ok, value = self._on_call(name, message.body)
                self._send(encode(Message("answer", {"number": number, "ok": ok}, value)))
            case "need":
                self._hand_in(message)
            case "refused":
                raise refusal_of(message)
            case "answered":
                return decode_answered(message)
            case _:
                raise BadFrame(f"Unknown message {message.kind[:40]!r}.")
        return None

    def _hand_in(self, message: Message) -> None:
        names = [] if self._files is None else [*self._files.known]
        places = message.fields.get("files")
        if self._files is None or not isinstance(places, list):
            raise BadFrame("Files are asked for that nobody offered.")
        wanted = [names[p] for p in places if type(p) is int and 0 <= p < len(names)]
        files = self._files.load(wanted)
        body = b"".join(bodies_of(files))
        self._send(encode(Message("files", {"files": rows_of(files)}, body)))
