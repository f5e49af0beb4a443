"""Which specifications exist, by name and alias, and who may replace one?"""

from types import MappingProxyType

from apps.domain.tooling.specification import Specification
from apps.domain.words import shown


class NameTaken(ValueError):
    """A name or alias that another registered tool already answers to."""


class Registry:
    """The registered specifications; a tool answers to its name and to its aliases."""

    __slots__ = ("_answers_to", "_specifications")

    def __init__(self) -> None:
        self._specifications: dict[str, Specification] = {}
        self._answers_to: dict[str, str] = {}

    def register(self, spec: Specification, *, replace: bool = False) -> None:
        """Add a specification; one of the same name is replaced only where that is asked for."""
        if not isinstance(spec, Specification):
            raise TypeError("Only a whole specification is registered.")
        if spec.name in self._specifications and not replace:
            raise NameTaken(f"The tool {shown(spec.name)} is registered already.")
        for word in (spec.name, *spec.aliases):
            owner = self._answers_to.get(word, spec.name)
            if owner != spec.name:
                raise NameTaken(f"{shown(word)} already names the tool {shown(owner)}.")
        if spec.name in self._specifications:
            self.remove(spec.name)
        self._specifications[spec.name] = spec
        self._answers_to.update((word, spec.name) for word in (spec.name, *spec.aliases))

    def remove(self, name: str) -> None:
        """Take a tool out, and with it every alias; an unknown name is a KeyError."""
        spec = self._specifications.pop(name)
        for word in (spec.name, *spec.aliases):
            del self._answers_to[word]

    def get(self, word: str) -> Specification | None:
        """Return the specification that a name or alias stands for."""
        name = self._answers_to.get(word)
        return None if name is None else self._specifications[name]

    def snapshot(self) -> MappingProxyType[str, Specification]:
        """Return the specifications by name as they are now, sorted; later changes do not show."""
        return MappingProxyType(dict(sorted(self._specifications.items())))
