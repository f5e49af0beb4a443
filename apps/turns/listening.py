"""How is a model heard out without its silence holding the turn?

A model may think for minutes before its next word. Stop and shutdown are felt at once all the
same, because a thread of its own waits for the word and the turn only looks in.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

from apps.turns.provider import Delta, ProviderFailed

LOOK_SECONDS = 0.2
_AHEAD = 256


def patiently(
    deltas: Iterator[Delta], stopped: Callable[[], bool], *, patience: float
) -> Iterator[Delta]:
    """Yield deltas as they arrive, and end soon after `stopped()`, whatever the model does.

    A model that says nothing for as long as `patience` has spent the turn's budget of silence.

    The thread of a model that was left alone ends with its next word, or when whoever asked hangs
    up.
    """
    arrived: queue.Queue[Delta | BaseException | None] = queue.Queue(_AHEAD)
    left_alone = threading.Event()

    def hand_over(item: Delta | BaseException | None) -> None:
        while not left_alone.is_set():
            try:
                arrived.put(item, timeout=LOOK_SECONDS)
            except queue.Full:
                continue
            return

    def read() -> None:
        try:
            for delta in deltas:
                hand_over(delta)
                if left_alone.is_set():
                    return
        except BaseException as raised:  # noqa: BLE001 - raised again where the turn can see it
            hand_over(raised)
        else:
            hand_over(None)

    threading.Thread(target=read, name="model", daemon=True).start()
    try:
        heard = time.monotonic()
        while not stopped():
            try:
                item = arrived.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if time.monotonic() - heard < patience:
                    continue
                raise ProviderFailed(
                    f"The model said nothing for {patience:g} seconds.",
                    deterministic=True,
                    kind="silence",
                ) from None
            heard = time.monotonic()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left_alone.set()
