"""Answer the name lookups of one sandbox, without asking anybody.

A program that connects by itself has to learn an address first. It gets one of the sandbox's own
loopback, made up for the name; whoever connects there is taken to mean that name. No question ever
leaves, so no name can carry anything out.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from apps.domain.egress import BadNetwork, Denied, Network, NetworkKind, canonical_host

MAX_NAMES: Final = 4096
MAX_QUESTION: Final = 512

_HEADER: Final = struct.Struct("!6H")
_LABEL: Final = re.compile(rb"[A-Za-z0-9_-]{1,63}\Z")
_ADDRESS, _INTERNET = 1, 1
_NO_SUCH_NAME, _REFUSED = 3, 5
_SECONDS_TO_LIVE: Final = 60


class Names:
    """The made-up addresses of one call: 127.78.0.1 and on, one for each name."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._numbers: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def meant(self, address: str) -> str | None:
        """Return the name that an address was made up for."""
        return self._names.get(address)

    def address(self, host: str) -> str | None:
        """Return the address made up for a name; None where there is room for no more."""
        number = self._numbers.get(host)
        if number is None:
            if len(self._numbers) >= MAX_NAMES:
                return None
            number = self._numbers[host] = len(self._numbers) + 1
            self._names[_written(number)] = host
        return _written(number)

    def check(self, asked: str) -> str:
        """Return the name that was asked for where the policy may let it through, or Denied."""
        try:
            host = canonical_host(asked)
        except BadNetwork as problem:
            raise Denied("bad_host", str(problem)) from problem
        listed = any(rule.names(host) for rule in self._network.hosts)
        if not listed and self._network.kind is not NetworkKind.PUBLIC:
            raise Denied("host_not_listed", f"{host} is not a host that this call may reach.")
        return host

    def answer(self, question: bytes) -> tuple[bytes, Denied | None, str]:
        """Answer one lookup; return the answer, the refusal if any, and the name as asked.

        What is no lookup gets no answer.
        """
        read = _read(question)
        if read is None:
            return b"", None, ""
        name, kind, end = read
        try:
            host = self.check(name)
        except Denied as denied:
            return _reply(question, end, _NO_SUCH_NAME), denied, name
        if kind != _ADDRESS:
            return _reply(question, end, 0), None, name
        address = self.address(host)
        if address is None:
            full = Denied("too_many_names", f"A call looks up at most {MAX_NAMES} names.")
            return _reply(question, end, _REFUSED), full, name
        return _reply(question, end, 0, address), None, name


def _written(number: int) -> str:
    return f"127.78.{number >> 8}.{number & 255}"


def _read(question: bytes) -> tuple[str, int, int] | None:
    """Return name, type and end of the one question of a plain lookup."""
    if not _HEADER.size < len(question) <= MAX_QUESTION:
        return None
    _, flags, questions, answers, *_ = _HEADER.unpack_from(question)
    # A question, of the usual kind; additional records are read past.
    if flags & 0xF800 or questions != 1 or answers:
        return None
    labels: list[str] = []
    at = _HEADER.size
    while at < len(question) and (size := question[at]):
        label = question[at + 1 : at + 1 + size]
        if len(label) != size or not _LABEL.match(label):
            return None
        labels.append(label.decode("ascii"))
        at += 1 + size
    if at + 5 > len(question) or not labels:
        return None
    kind, family = struct.unpack_from("!2H", question, at + 1)
    return (".".join(labels), kind, at + 5) if family == _INTERNET else None


def _reply(question: bytes, end: int, code: int, address: str | None = None) -> bytes:
    number, flags, *_ = _HEADER.unpack_from(question)
    # An answer; recursion available, and desired as it was asked.
    head = _HEADER.pack(number, 0x8080 | flags & 0x0100 | code, 1, int(address is not None), 0, 0)
    body = question[_HEADER.size : end]
    if address is None:
        return head + body
    record = struct.pack("!3HIH4B", 0xC00C, _ADDRESS, _INTERNET, _SECONDS_TO_LIVE, 4,
                         *(int(part) for part in address.split(".")))  # fmt: skip
    return head + body + record
