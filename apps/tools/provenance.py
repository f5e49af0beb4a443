"""What is kept of how a call of a package's tool was run?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.domain.egress import Crossing
from apps.sandbox.runner import ToolReply

MAX_TOLD = 40
"""Destinations that the audit trail tells of one call."""


def provenance_of(reply: ToolReply) -> dict[str, Any]:
    """Return what is kept of how a call was run: what it stood on, and what it was not given."""
    kept: dict[str, Any] = {}
    if reply.pins:
        kept["executionPaths"] = {name: dict(pins) for name, pins in reply.pins.items()}
    if reply.clamped:
        kept["clamped"] = [
            {"limit": one.name, "asked": one.asked, "given": one.given} for one in reply.clamped
        ]
    if reply.crossings:
        kept["network"] = _crossed(reply.crossings)
    return kept


def _crossed(crossings: Sequence[Crossing]) -> dict[str, Any]:
    """Return what a call tried to reach: each destination with its verdict, counts and bytes.

    Of very many, what was reached is told before what was refused, and first what got the most.
    """
    told: dict[tuple[str, int, str], list[Crossing]] = {}
    for one in crossings:
        told.setdefault((one.host, one.port, one.verdict), []).append(one)
    first = sorted(
        told.items(),
        key=lambda item: (any(one.address for one in item[1]), sum(one.sent for one in item[1])),
        reverse=True,
    )
    return {
        "tried": [
            {
                "host": host,
                "port": port,
                "verdict": verdict,
                "addresses": sorted({one.address for one in all_of if one.address})[:4],
                "times": len(all_of),
                "received": sum(one.received for one in all_of),
                "sent": sum(one.sent for one in all_of),
            }
            for (host, port, verdict), all_of in first[:MAX_TOLD]
        ],
        "more": max(0, len(told) - MAX_TOLD),
    }
