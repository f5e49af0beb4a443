"""Where does the server itself send a message, and what does its run keep of that?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from apps.runs.models import RunInput


@dataclass(frozen=True, slots=True)
class Routed:
    """Where the server itself sends a message: to a tool first, for one artifact of the room.

    It is an order among what the run holds anyway. It grants nothing, and each call is decided.
    """

    tool: str
    artifact: str
    title: str
    version: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is kept with the message's input."""
        return asdict(self)


def policy_of(given: RunInput, policy: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a run's policy with the route of this input: a route is for its own message only."""
    kept = {name: value for name, value in (policy or {}).items() if name != "routed"}
    return kept | ({"routed": given.routed["tool"]} if given.routed else {})


def input_body(given: RunInput) -> dict[str, Any]:
    """Return what the journal keeps of an input."""
    about = {"about": given.routed} if given.routed else {}
    outside = {"outside": given.outside} if given.outside else {}
    return {"text": given.text, "position": given.position, **about, **outside}
