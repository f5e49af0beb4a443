"""Which lines does a paste bring? Cuts and pastes are carried out in the order written.

A call works on a copy. What it cut is published with its files, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.domain.hashline.model import BlockAt, Cut, Hunk, Paste, Span
from apps.domain.hashline.refusals import Caution, Refusal, Rule

MAX_REGISTERS = 64
MAX_REGISTER_CHARACTERS = 2 * 1024 * 1024
"""All named registers together."""

_SHOWN_NAMES = 10


class Registers:
    """The registers as one call sees them: named ones, and the one without a name."""

    def __init__(self, named: Mapping[str, tuple[str, ...]]) -> None:
        self.named = dict(named)
        self._anonymous: tuple[str, ...] | None = None
        self._cuts = 0

    def copy(self) -> Registers:
        """Return registers of their own that begin where these stand."""
        other = Registers(self.named)
        other._anonymous, other._cuts = self._anonymous, self._cuts
        return other

    def cut(self, hunk: Cut, lines: Sequence[str]) -> None:
        """Keep lines under the hunk's name; the last cut under a name wins."""
        if hunk.register is None:
            self._anonymous = tuple(lines)
            self._cuts += 1
            return
        self.named[hunk.register] = tuple(lines)

    def paste(self, hunk: Paste, *, path: str) -> tuple[str, ...] | None:
        """Return the lines to paste, None where the name is unknown, or refuse."""
        if hunk.register is None:
            return self._paste_anonymous(hunk, path)
        lines = self.named.get(hunk.register)
        if lines is None and isinstance(hunk.place, Span | BlockAt):
            raise Refusal(
                Rule.EMPTY_NAMED_REGISTER_OVER_RANGE,
                f"There is no register @{hunk.register}, so this paste would only delete."
                f" {self._known()}",
                path=path,
                row=hunk.row,
            )
        return lines

    def check_bounds(self, *, path: str) -> None:
        """Refuse more, or larger, registers than are kept between calls."""
        size = sum(len(line) + 1 for lines in self.named.values() for line in lines)
        if len(self.named) > MAX_REGISTERS or size > MAX_REGISTER_CHARACTERS:
            raise Refusal(
                Rule.REGISTERS_FULL,
                f"There may be {MAX_REGISTERS} named registers of {MAX_REGISTER_CHARACTERS}"
                " characters together. Cut into a name that is in use, or without a name.",
                path=path,
            )

    def _paste_anonymous(self, hunk: Paste, path: str) -> tuple[str, ...]:
        if self._anonymous is None:
            raise Refusal(
                Rule.EMPTY_ANONYMOUS_REGISTER,
                "Nothing was cut above this paste. For new text write a colon and '+' rows.",
                path=path,
                row=hunk.row,
            )
        if self._cuts > 1:
            raise Refusal(
                Rule.AMBIGUOUS_ANONYMOUS_REGISTER,
                "Two cuts without a name stand above this paste; give each a register (' @name').",
                path=path,
                row=hunk.row,
            )
        self._cuts = 0
        return self._anonymous

    def _known(self) -> str:
        if not self.named:
            return "No register is in use."
        names = sorted(self.named)
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return "In use: " + ", ".join(f"@{name}" for name in names[:_SHOWN_NAMES]) + more + "."


def check_sequence(hunks: Sequence[Hunk], registers: Registers, *, path: str) -> list[Caution]:
    """Go through cuts and pastes without carrying them out; return warnings, or refuse."""
    trial = registers.copy()
    cautions: list[Caution] = []
    for hunk in hunks:
        if isinstance(hunk, Cut):
            trial.cut(hunk, ())
        elif isinstance(hunk, Paste) and trial.paste(hunk, path=path) is None:
            cautions.append(Caution.EMPTY_NAMED_REGISTER)
    return cautions
