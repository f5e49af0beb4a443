"""Hold one conversation about a sandbox that lives on: open it, ask of it, or close it."""

from __future__ import annotations

import time
from typing import Final

from apps.domain.wire import BadFrame, JsonValue, Message
from apps.sandboxd.askers import KernelAsker
from apps.sandboxd.exchange import Exchange
from apps.sandboxd.job_wire import MessageFields
from apps.sandboxd.jobs import BadJob
from apps.sandboxd.keeper import Keeper, KeeperRefuses, lost
from apps.sandboxd.kernel_wire import (
    Opened,
    Request,
    check_key,
    decode_opening,
    decode_request,
    encode_answered,
    encode_closed,
    encode_opened,
)
from apps.sandboxd.kernels import Kernel
from apps.sandboxd.livefiles import FolderGone
from apps.sandboxd.workfiles import BadWorkFiles, WorkFile, read_files

KERNEL_KINDS: Final = frozenset({"open", "request", "close"})
_LOOK_SECONDS: Final = 0.05


def converse(keeper: Keeper, asker: KernelAsker, first: Message, *, node: str, python: str) -> None:
    """Carry out what the first message asks and answer it.

    Raises KeeperRefuses, BadFrame, BadJob, and what a launch raises.
    """
    match first.kind:
        case "open":
            kernel, fresh = keeper.open(decode_opening(first))
            asker.answer(encode_opened(Opened(kernel.generation, fresh, node, python)))
        case "request":
            asker.answer(_request(keeper, asker, decode_request(first)))
        case _:
            read = MessageFields(first)
            key, owner = check_key(read.text("key")), check_key(read.text("owner"))
            read.done()
            asker.answer(encode_closed(keeper.close(key=key, owner=owner)))


def _request(keeper: Keeper, asker: KernelAsker, request: Request) -> Message:
    deadline = time.monotonic() + request.deadline_ms / 1000
    kernel = keeper.find(key=request.key, owner=request.owner, generation=request.generation)
    asker.listen()
    _take_turn(kernel, asker, deadline)
    try:
        if request.workspace is not None:
            _hand_in(kernel, asker, request)
        asker.listen()
        exchange = Exchange(
            asker=asker,
            line=request.line,
            deadline=deadline,
            keep_workspace=request.workspace is not None,
            collect=request.collect,
            wanted=request.outputs,
        )
        keeper.carry_out(kernel, exchange)
    finally:
        kernel.turn.release()
    if exchange.kernel_ended:
        kernel.join()
    return encode_answered(exchange)


def _take_turn(kernel: Kernel, asker: KernelAsker, deadline: float) -> None:
    """Wait until no other request is under way: a kernel does one thing at a time."""
    while not kernel.turn.acquire(timeout=_LOOK_SECONDS):
        if asker.gave_up():
            raise KeeperRefuses("cancelled", "The request was given up before it began.")
        if time.monotonic() >= deadline:
            raise KeeperRefuses("busy", "The kernel was busy with another request all the time.")


def _hand_in(kernel: Kernel, asker: KernelAsker, request: Request) -> None:
    wanted = request.workspace or {}
    needed = kernel.files.needed(wanted)
    files: tuple[WorkFile, ...] = ()
    if needed:
        places = {name: place for place, name in enumerate(wanted)}
        numbers: list[JsonValue] = [places[name] for name in needed]
        answer = asker.exchange(Message("need", {"files": numbers}))
        if answer.kind != "files":
            raise BadFrame("The files that were asked for did not come.")
        read = MessageFields(answer)
        files = read_files(read.rows("files"), read.take)
        read.done()
    try:
        kernel.files.put(wanted, files)
    except FolderGone:
        raise lost() from None
    except BadWorkFiles as problem:
        raise BadJob(str(problem)) from problem
