"""What does a program learn of its call? One JSON object on its standard input."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apps.domain.canonical import canonical_json
from apps.domain.scoping import Artifact, ArtifactKind

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Places:
    """Where things lie for a program: its package, and the two folders of this one call."""

    package: str
    output: str
    temporary: str

    def of(self, path: str) -> str:
        """Return the physical place of a path of the package."""
        return f"{self.package}/{path}" if path else self.package

    def artifacts(self, scope: Artifact) -> dict[str, str]:
        """Return the physical place of each artifact of a scope."""
        return {one.id: self.of(one.path) for one in scope.walk()}


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a program that speaks the JSON protocol."""

    scope: Artifact
    places: Places
    execution_paths: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that the program reads."""
        context: dict[str, Any] = {
            "artifactId": self.scope.id,
            "artifactPath": self.places.of(self.scope.path),
            "outputDir": self.places.output,
            "tmpDir": self.places.temporary,
            "scope": {self.scope.id: _scope(self.scope, self.places)},
        }
        if self.execution_paths:
            context["executionPaths"] = {
                path: self.places.of(path) for path in self.execution_paths
            }
        return {"version": VERSION, "context": context, "args": dict(self.arguments)}

    def encoded(self) -> bytes:
        """Return the bytes that the program reads, with a line end after them."""
        return canonical_json(self.as_dict()) + b"\n"


def _scope(artifact: Artifact, places: Places) -> dict[str, Any]:
    return {
        "path": places.of(artifact.path),
        "kind": ArtifactKind(artifact.kind).value,
        "children": {name: _scope(child, places) for name, child in artifact.children},
    }
