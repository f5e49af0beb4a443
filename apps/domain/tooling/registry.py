"""Which tools are registered, by name and alias, with whom to call, and who may replace one?

Being registered grants nothing and skips no approval: a registry says what a tool is, and the
policy, which is asked at every call, says who may use it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from apps.domain.tooling.declaring import BadSpecification, check_specification
from apps.domain.tooling.descriptors import Descriptor
from apps.domain.tooling.specification import Specification
from apps.domain.tooling.words import SideEffectClass
from apps.domain.words import shown

Executor = TypeVar("Executor", bound=Callable[..., Any])


class NameTaken(ValueError):
    """A name or alias that another registered tool already answers to."""


class NotInTheSet(ValueError):
    """A tool that the closed set does not name."""


class Untyped(ValueError):
    """Something without a whole specification, or without anything to call."""


@dataclass(frozen=True, slots=True)
class Registered(Generic[Executor]):
    """A whole specification and what carries it out."""

    spec: Specification
    executor: Executor


class Registry(Generic[Executor]):
    """The registered tools; each answers to its name and to its aliases.

    A registry that is given names is closed: nothing else ever registers in it.
    """

    __slots__ = ("_answers_to", "_closed", "_registered")

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self._closed = None if names is None else frozenset(names)
        self._registered: dict[str, Registered[Executor]] = {}
        self._answers_to: dict[str, str] = {}

    def register_spec(
        self, spec: Specification, executor: Executor, *, replace: bool = False
    ) -> None:
        """Register a tool: its whole specification and what carries it out.

        One of the same name is replaced only where that is asked for.
        """
        if not isinstance(spec, Specification):
            raise Untyped("Only a whole specification is registered.")
        _callable(executor)
        # However it was made: a specification is believed because it was checked here.
        check_specification(spec)
        if spec.side_effect_class is SideEffectClass.UNKNOWN:
            raise BadSpecification("side_effects", "It changes something and does not say what.")
        if self._closed is not None and spec.name not in self._closed:
            raise NotInTheSet(f"The closed set does not name {shown(spec.name)}.")
        if spec.name in self._registered and not replace:
            raise NameTaken(f"The tool {shown(spec.name)} is registered already.")
        for word in (spec.name, *spec.aliases):
            owner = self._answers_to.get(word, spec.name)
            if owner != spec.name:
                raise NameTaken(f"{shown(word)} already names the tool {shown(owner)}.")
        if spec.name in self._registered:
            self.remove(spec.name)
        self._registered[spec.name] = Registered(spec, executor)
        self._answers_to.update((word, spec.name) for word in (spec.name, *spec.aliases))

    def replace_executor(self, name: str, executor: Executor) -> None:
        """Let something else carry a tool out, under the specification that it has."""
        _callable(executor)
        self._registered[name] = replace(self._registered[name], executor=executor)

    def remove(self, name: str) -> None:
        """Take a tool out, its aliases and its descriptor with it; an unknown name: KeyError."""
        spec = self._registered.pop(name).spec
        for word in (spec.name, *spec.aliases):
            del self._answers_to[word]

    def get(self, word: str) -> Registered[Executor] | None:
        """Return the tool that a name or alias stands for."""
        name = self._answers_to.get(word)
        return None if name is None else self._registered[name]

    def snapshot(self) -> MappingProxyType[str, Registered[Executor]]:
        """Return the whole tools by name as they are now, sorted; later changes do not show."""
        return MappingProxyType(dict(sorted(self._registered.items())))

    def descriptors(self) -> list[Descriptor]:
        """Return what models see of the registered tools, by name."""
        return [entry.spec.descriptor() for entry in self.snapshot().values()]


def _callable(executor: object) -> None:
    if not callable(executor):
        raise Untyped("A tool without anything to call is not registered.")
