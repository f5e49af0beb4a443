"""What does a logical path of an artifact stand for? A place in it, or in one of its children."""

from collections.abc import Iterator
from dataclasses import dataclass

from apps.domain.filescope.files import EntryKind, Files
from apps.domain.filescope.paths import ROOT, NotThere, ScopeError, check_logical
from apps.domain.scoping import Artifact, ArtifactKind


@dataclass(frozen=True, slots=True)
class Place:
    """A logical path, the artifact that it leads to, and where that is in its files.

    `at_root` is true for the artifact itself, of which a file or a graph has no folder.
    """

    path: str
    artifact: Artifact
    physical: str
    at_root: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """An artifact with its children over some files: everything that its tools may look at."""

    artifact: Artifact
    files: Files

    def check_targets(self) -> None:
        """Refuse the whole scope where a file that it is made of is no plain file."""
        for artifact in self.artifact.walk():
            if artifact.kind is ArtifactKind.FILE:
                if self._kind(artifact.path) is not EntryKind.FILE:
                    raise NotThere(f"The file of the artifact {artifact.id} is not a plain file.")
            elif (
                artifact.kind is ArtifactKind.FOLDER
                and artifact.path
                and self._kind(artifact.path) is not EntryKind.DIRECTORY
            ):
                raise NotThere(f"The folder of the artifact {artifact.id} is not there.")

    def place(self, path: str | None) -> Place:
        """Return what a logical path stands for; without one it is the root."""
        if path is None:
            return self._root(self.artifact, "")
        if path == ROOT and self.artifact.kind is ArtifactKind.FILE:
            return self._root(self.artifact, ROOT)
        artifact, parts = self.artifact, list(check_logical(path))
        while parts and (child := artifact.child(parts[0])) is not None:
            artifact = child
            parts.pop(0)
        if not parts:
            return self._root(artifact, path)
        rest = "/".join(parts)
        match artifact.kind:
            case ArtifactKind.FILE if rest == artifact.file_name:
                physical = artifact.path
            case ArtifactKind.FOLDER:
                physical = f"{artifact.path}/{rest}" if artifact.path else rest
            case _:
                raise NotThere("There is nothing under that path.")
        return Place(path, artifact, physical, at_root=False)

    def file(self, path: str) -> Place:
        """Return the place of a plain file, or refuse."""
        place = self.place(path)
        if place.at_root or self._kind(place.physical) is not EntryKind.FILE:
            raise NotThere("There is no plain file under that path.")
        return place

    def is_folder(self, place: Place) -> bool:
        """Tell whether a place can be listed; what is neither folder nor file is refused."""
        if place.at_root:
            return True
        kind = self._kind(place.physical)
        if kind in (EntryKind.DIRECTORY, EntryKind.FILE):
            return kind is EntryKind.DIRECTORY
        raise NotThere("There is no folder and no plain file under that path.")

    def entries(self, place: Place) -> dict[str, EntryKind]:
        """Return what is in a folder of the scope, children included."""
        if not self.is_folder(place):
            raise ScopeError("It is a file, and not a folder.")
        found: dict[str, EntryKind] = {}
        if place.at_root and place.artifact.kind is ArtifactKind.FILE:
            found[place.artifact.file_name] = EntryKind.FILE
        elif not place.at_root or place.artifact.kind is ArtifactKind.FOLDER:
            found.update(self.files.entries(place.physical))
        if place.at_root:
            found.update((name, EntryKind.DIRECTORY) for name, _ in place.artifact.children)
        return found

    def below(self, place: Place, name: str) -> Place:
        """Return the place of an entry of a folder."""
        return self.place(name if place.path in ("", ROOT) else f"{place.path}/{name}")

    def walk(self, place: Place) -> Iterator[tuple[str, Place, EntryKind]]:
        """Yield everything below a folder in order, with its path relative to that folder."""
        waiting: list[tuple[str, Place]] = [("", place)]
        while waiting:
            prefix, folder = waiting.pop()
            found = self.entries(folder)
            folders: list[tuple[str, Place]] = []
            for name in sorted(found):
                relative = f"{prefix}{name}"
                # A name that no path may hold is listed with its folder, and reached by nothing.
                try:
                    inner = self.below(folder, name)
                except ScopeError:
                    continue
                yield relative, inner, found[name]
                if found[name] is EntryKind.DIRECTORY:
                    folders.append((f"{relative}/", inner))
            waiting.extend(reversed(folders))

    def _root(self, artifact: Artifact, path: str) -> Place:
        return Place(path, artifact, artifact.path, at_root=True)

    def _kind(self, path: str) -> EntryKind | None:
        return self.files.kind(path)
