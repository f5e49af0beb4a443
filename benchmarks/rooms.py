"""How long does a committed fact take to everybody in the room, and does any get lost on the way?

Fifty viewers in one process watch a room of the running product; another process commits events
and feeds a growing text. A sample is the time from the commit (or the feeding) until one viewer has
it. In the same run a bare Redis-to-socket relay carries messages of the same size to as many
viewers. Finally a deliberately broken web server must be caught losing events.
"""

from __future__ import annotations

import sys

from benchmarks.harness import Partner, Report, Stack, main, percentile, say

VIEWERS = 50
RATE = 20.0


def measure(quick: bool) -> Report:
    """Measure the rooms of a running Kaizen."""
    rounds, samples = (2, 30) if quick else (6, 60)
    with Stack() as stack:
        publisher = stack.partner("benchmarks.rooms_publisher")
        watcher = stack.partner("benchmarks.rooms_viewers")
        room = publisher.ask("prepare", viewers=VIEWERS)["room"]
        web, bare = stack.url.rpartition(":")[2], stack.serve("benchmarks.rooms_bare:application")
        _open(publisher, watcher, "room", int(web), room)
        watcher.ask("open", name="bare", addresses=[f"ws://127.0.0.1:{bare}/"] * VIEWERS)

        ours: list[float] = []
        floor: list[float] = []
        streamed: list[float] = []
        lost = last = 0
        for number in range(rounds + 1):
            # In turn, so that whatever else the machine does hits both alike.
            sent = publisher.ask("events", count=samples, rate=RATE)["sent"]
            events = watcher.ask("latencies", name="room", sent=sent)
            last = max(map(int, sent))
            sent = publisher.ask("bare", count=samples, rate=RATE)["sent"]
            plain = watcher.ask("latencies", name="bare", sent=sent)
            text = publisher.ask("stream", count=samples, rate=RATE)
            growth = watcher.ask("growth", name="room", **text)
            lost += events["lost"] + growth["lost"]
            if number == 0:
                # The first round warms every process up.
                continue
            ours += events["waits"]
            floor += plain["waits"]
            streamed += growth["waits"]
            say(
                f"round {number}: events p50 {_ms(events['waits'], 0.5)} ms,"
                f" streams p50 {_ms(growth['waits'], 0.5)} ms,"
                f" bare p50 {_ms(plain['waits'], 0.5)} ms"
            )

        commits = 100 if quick else 300
        last = publisher.ask("burst", commits=commits, each=3)["positions"][-1]
        lost += watcher.ask("missing", name="room", last=last)["lost"]
        say(f"burst: {commits * 3} events to {VIEWERS} viewers, lost so far: {lost}")
        caught = _broken(stack, publisher, watcher, room)
        say(f"broken on purpose: {caught} lost, as counted by the same viewers")

    figures: dict[str, float | int] = {
        "viewers": VIEWERS,
        "p50_ms": _ms(ours, 0.5),
        "p99_ms": _ms(ours, 0.99),
        "lost_finals": lost,
        "ratio_to_bare_pubsub": round(percentile(ours, 0.5) / percentile(floor, 0.5), 2),
        "bare_p50_ms": _ms(floor, 0.5),
        "bare_p99_ms": _ms(floor, 0.99),
        "stream_p50_ms": _ms(streamed, 0.5),
        "stream_p99_ms": _ms(streamed, 0.99),
        "lost_finals_when_broken": caught,
    }
    return Report(figures, ok=lost == 0 and caught > 0)


def _broken(stack: Stack, publisher: Partner, watcher: Partner, room: str) -> int:
    port = stack.serve("benchmarks.rooms_broken:application")
    _open(publisher, watcher, "broken", port, room)
    last = publisher.ask("burst", commits=20, each=3)["positions"][-1]
    return int(watcher.ask("missing", name="broken", last=last)["lost"])


def _open(publisher: Partner, watcher: Partner, name: str, port: int, room: str) -> None:
    tickets = publisher.ask("tickets")["tickets"]
    addresses = [f"ws://127.0.0.1:{port}/ws/rooms/{room}/?ticket={ticket}" for ticket in tickets]
    watcher.ask("open", name=name, addresses=addresses)


def _ms(waits: list[float], share: float) -> float:
    return round(percentile(waits, share) * 1000, 2)


if __name__ == "__main__":
    sys.exit(main("rooms", measure))
