"""How does a tool use a credential that neither it nor anything behind it may ever see?

A tool that reaches somebody's account outside declares that it uses a connection. The adapter that
is registered for such accounts says which connection stands behind a call: that is its *binding*,
a name, and it is reserved with the call. The tool is handed a `Credential`, which holds nothing.
The only thing to do with one is to ask for an operation, which its adapter carries out, for this
call, as long as the call runs. No value of a credential comes back.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.core.errors import Refusal
from apps.domain.policy import lacks_connection
from apps.domain.tooling import Specification

MAX_BINDING = 120


class NoConnection(Refusal):
    """A tool needs a connection, and there is none that it may use for this member."""

    code = "dependency_unavailable"
    status = 503


class SpentCredential(LookupError):
    """The call that this credential was made for is over, or it never was one."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing to be done outside: a word that the adapter knows, and its own arguments."""

    word: str
    arguments: dict[str, Any]


class Adapter(Protocol):
    """The one place that may turn a binding into something that is done outside."""

    def binding_for(self, *, spec: Specification, member: User) -> str | None:
        """Name the connection that a call of this tool would use as this member, if any."""
        ...

    def account_of(self, *, spec: Specification, member: User) -> str:
        """Say in words whose account that is, for whoever decides about a call."""
        ...

    def operate(
        self, *, binding: str, operation: Operation, call_id: Any, deadline: Deadline
    ) -> Any:
        """Carry out one operation and return its bounded answer, never a credential."""
        ...


class Credential:
    """A handle on somebody's connection, without a value: nothing in it could be stolen."""

    __slots__ = ("_reference",)

    def __init__(self, reference: str) -> None:
        self._reference = reference

    def operate(self, word: str, arguments: dict[str, Any]) -> Any:
        """Ask the adapter for one operation; fails once the call is over."""
        return _operate(self._reference, Operation(word, arguments))

    def __repr__(self) -> str:
        return "Credential()"

    def __reduce__(self) -> NoReturn:
        # It would mean nothing in another process, and has no business there.
        raise TypeError("A credential stays with the call that it was made for.")


@dataclass(frozen=True, slots=True)
class _Issued:
    adapter: Adapter
    binding: str
    call_id: Any
    deadline: Deadline


_adapter: Adapter | None = None
_issued: dict[str, _Issued] = {}
_lock = threading.Lock()


def register_adapter(adapter: Adapter) -> None:
    """Register the adapter for connections; there is one, and it is code of ours."""
    global _adapter
    if _adapter is not None:
        raise ValueError("An adapter for connections is registered already.")
    _adapter = adapter


def binding_of(*, spec: Specification, member: User) -> str:
    """Return the connection that a call would use as this member: nothing for most tools.

    Only the registered specification says that a tool needs one, and only the adapter which.
    """
    if not spec.uses_connection:
        return ""
    binding = None if _adapter is None else _adapter.binding_for(spec=spec, member=member)
    if not binding or len(binding) > MAX_BINDING:
        raise NoConnection(lacks_connection(spec))
    return binding


def account_of(*, spec: Specification, member: User) -> str:
    """Say as whose account at another system a call would act; nothing for most tools."""
    if not spec.uses_connection or _adapter is None:
        return ""
    return _adapter.account_of(spec=spec, member=member)


def is_connected(*, spec: Specification, member: User) -> bool:
    """Tell whether a call would find the connection that it needs; it needs none where none is."""
    try:
        binding_of(spec=spec, member=member)
    except NoConnection:
        return False
    return True


@contextmanager
def issued(*, binding: str, call_id: Any, deadline: Deadline) -> Iterator[Credential | None]:
    """Make the handle of one call for as long as it runs; none where it uses no connection."""
    if not binding:
        yield None
        return
    if _adapter is None:
        raise NoConnection("The adapter for connections is not there any more.")
    reference = secrets.token_urlsafe(24)
    with _lock:
        _issued[reference] = _Issued(_adapter, binding, call_id, deadline)
    try:
        yield Credential(reference)
    finally:
        with _lock:
            del _issued[reference]


def _operate(reference: str, operation: Operation) -> Any:
    with _lock:
        held = _issued.get(reference)
    if held is None:
        raise SpentCredential("This credential's call is over.")
    return held.adapter.operate(
        binding=held.binding,
        operation=operation,
        call_id=held.call_id,
        deadline=held.deadline,
    )
