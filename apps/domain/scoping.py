"""Which files may a package's commands and file tools look at, and under which names?

A package is an artifact: a folder with everything in its tree. It may declare further artifacts,
each a file or a folder of that tree, that lie in another one as its children. A tool reads the
artifact that declares it, with its children, and no other.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from apps.domain.entries import NAME_SCHEMA
from apps.domain.packagetree import path_problem
from apps.domain.problems import Problems
from apps.domain.shapes import check_shape, closed
from apps.domain.words import shown

MAX_ARTIFACTS: Final = 32


class ArtifactKind(StrEnum):
    """What an artifact consists of: one file, a folder, or nothing but its children."""

    FILE = "file"
    FOLDER = "folder"
    GRAPH = "graph"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact: its id, its place in the tree (empty for the root), and its children."""

    id: str
    kind: ArtifactKind
    path: str
    children: tuple[tuple[str, "Artifact"], ...] = ()

    @property
    def folder(self) -> str:
        """Where its commands work: itself, or the folder in which its file lies."""
        return self.path.rpartition("/")[0] if self.kind is ArtifactKind.FILE else self.path

    @property
    def file_name(self) -> str:
        """The name of its one file."""
        return self.path.rpartition("/")[2]

    def child(self, name: str) -> "Artifact | None":
        """Return the child of a logical name, if there is one."""
        return next((child for at, child in self.children if at == name), None)

    def walk(self) -> Iterator["Artifact"]:
        """Yield this artifact and all below it."""
        yield self
        for _, child in self.children:
            yield from child.walk()


ARTIFACTS_SCHEMA: Final[dict[str, Any]] = {
    "type": "array",
    "maxItems": MAX_ARTIFACTS,
    "items": closed(
        "id kind path",
        id=NAME_SCHEMA,
        kind={"enum": [one.value for one in ArtifactKind]},
        path={"type": "string", "minLength": 1, "maxLength": 240},
        parent=NAME_SCHEMA,
        name=NAME_SCHEMA,
    ),
}


def parse_artifacts(raw: Any, package: str, problems: Problems) -> Artifact:
    """Return the package's artifact with all that it declares, noting what is wrong."""
    root = Artifact(package, ArtifactKind.FOLDER, "")
    found = Problems()
    check_shape(raw, ARTIFACTS_SCHEMA, "artifacts", found)
    for problem in found.found():
        problems.add(problem.path, problem.rule, problem.message)
    if found:
        return root
    below: dict[str, list[tuple[str, dict[str, Any]]]] = {package: []}
    for index, item in enumerate(raw):
        where = f"artifacts[{index}]"
        if refused := path_problem(item["path"]):
            problems.add(f"{where}.path", *refused)
        if item["id"] in below:
            problems.add(f"{where}.id", "name_clash", "Another artifact has this id.")
            return root
        parent = item.get("parent", package)
        # A parent stands before its children, so there is no circle to look for.
        if parent not in below:
            message = f"No artifact before it has the id {shown(parent)}."
            problems.add(f"{where}.parent", "unknown", message)
            return root
        name = item.get("name", item["id"])
        if any(name == other for other, _ in below[parent]):
            problems.add(f"{where}.name", "name_clash", "Another child of its parent is named so.")
        below[item["id"]] = []
        below[parent].append((name, item))
    for index, item in enumerate(raw):
        if item["kind"] == ArtifactKind.FILE and below[item["id"]]:
            problems.add(f"artifacts[{index}].kind", "incoherent", "A file has no children.")
    return _built(root, below)


def scope_problems(root: Artifact, files: Set[str], problems: Problems) -> None:
    """Note each declared artifact whose file or folder is not in a tree."""
    for artifact in root.walk():
        if artifact.kind is ArtifactKind.FILE:
            there = artifact.path in files
        else:
            there = not artifact.path or any(path.startswith(f"{artifact.path}/") for path in files)
        if not there:
            message = f"The tree has no {artifact.kind} {shown(artifact.path)}."
            problems.add(f"artifacts.{artifact.id}", "entry_missing", message)
        clash = {at for at, _ in artifact.children} & _names_in(artifact, files)
        for name in sorted(clash):
            message = f"Its own files already have the name {shown(name)}, as has a child."
            problems.add(f"artifacts.{artifact.id}", "name_clash", message)


def _names_in(artifact: Artifact, files: Set[str]) -> set[str]:
    if artifact.kind is not ArtifactKind.FOLDER:
        return set()
    # A child that lies where its parent would show it anyway hides nothing.
    own = {at for at, child in artifact.children if child.path == _below(artifact.path, at)}
    prefix = f"{artifact.path}/" if artifact.path else ""
    names = {path[len(prefix) :].partition("/")[0] for path in files if path.startswith(prefix)}
    return names - own


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _built(root: Artifact, below: dict[str, list[tuple[str, dict[str, Any]]]]) -> Artifact:
    children = tuple(
        (name, _built(Artifact(item["id"], ArtifactKind(item["kind"]), item["path"]), below))
        for name, item in below[root.id]
    )
    return Artifact(root.id, root.kind, root.path, children)
