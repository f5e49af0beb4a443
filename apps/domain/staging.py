"""Which tools are one protocol, so that a model sees all of them or none?

A model that saw only the beginning of a protocol would begin what it cannot end. So a preference
for one of its tools shows them all, where the run holds them all, and otherwise shows none.

What a draft holds so far has a name that follows from every piece and their order, so a writer who
gives that name has seen all of it.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Final

STAGED_WRITING: Final = (
    "begin_artifact",
    "append_artifact",
    "finalize_artifact",
    "discard_artifact",
)
PROTOCOLS: Final[tuple[tuple[str, ...], ...]] = (STAGED_WRITING,)


def protocol_of(
    name: str, protocols: Sequence[Sequence[str]] = PROTOCOLS
) -> tuple[str, ...] | None:
    """Return the whole protocol that a tool belongs to, or None."""
    for protocol in protocols:
        if name in protocol:
            return tuple(protocol)
    return None


def whole(
    names: Iterable[str],
    held: Collection[str],
    protocols: Sequence[Sequence[str]] = PROTOCOLS,
) -> list[str]:
    """Return names with every protocol completed, or left out where the run lacks a part of it."""
    shown: list[str] = []
    for name in names:
        protocol = protocol_of(name, protocols) or (name,)
        if all(part in held for part in protocol):
            shown += [part for part in protocol if part not in shown]
    return shown


def is_out_of_place(
    name: str, advertised: Collection[str], protocols: Sequence[Sequence[str]] = PROTOCOLS
) -> bool:
    """Tell whether a call asks for a part of a protocol that its step did not show."""
    return protocol_of(name, protocols) is not None and name not in advertised


def first_digest(draft: str) -> str:
    """Return the name of a draft that holds nothing yet."""
    return hashlib.sha256(f"draft:{draft}".encode()).hexdigest()


def next_digest(prior: str, piece: str) -> str:
    """Return the name of a draft after one more piece."""
    own = hashlib.sha256(piece.encode()).hexdigest()
    return hashlib.sha256(f"{prior}:{own}".encode()).hexdigest()
