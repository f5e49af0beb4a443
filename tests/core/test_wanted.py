"""A loop that passes over failures ends when it is cancelled, whatever the cancellation became."""

from __future__ import annotations

import asyncio

from apps.core.wanted import still_wanted


async def test_a_swallowed_cancellation_ends_the_loop_all_the_same() -> None:
    rounds = 0

    async def for_ever() -> None:
        nonlocal rounds
        while still_wanted():
            rounds += 1
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                # As a client library may, at the end of its own patience.
                continue

    task = asyncio.get_running_loop().create_task(for_ever())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait_for(task, 5)
    assert rounds == 1


async def test_a_time_out_of_ones_own_is_no_cancellation() -> None:
    try:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)
    except TimeoutError:
        assert still_wanted()


def test_outside_of_a_loop_everything_is_wanted() -> None:
    async def ask() -> bool:
        return still_wanted()

    assert asyncio.run(ask())
